"""Which heuristics run without being asked for, and where they run online."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.scoring import Heuristics, Unloaded


if TYPE_CHECKING:
    from llmeval_sdk.config import Settings
    from llmeval_sdk.model.protocols import Heuristic


def standing_heuristics(settings: Settings) -> list[Heuristic | Unloaded]:
    """Return the heuristics that run without being asked for: built-in ones and the app's own.

    Those whose `Attachment` is known are loaded once a record has what they need.
    """
    standing = {heuristic.name: heuristic for heuristic in _built_in(settings)}
    return list({**standing, **_own(settings)}.values())


def every_heuristic(settings: Settings) -> list[Heuristic]:
    """Return all built-in heuristics and the app's own, loaded: for rows of a data set.

    A row may have the ground truth for those that run online only where they are named.
    """
    built_in = {name: _installed(name, settings) for name in registry.heuristics()}
    every = {**built_in, **_own(settings)}
    return [heuristic for heuristic in every.values() if heuristic is not None]


def inline_heuristics(settings: Settings) -> Heuristics:
    """Return those that run on the app's thread, without a look at the plugins.

    They are what runs until the worker has made its plan.
    """
    standing: dict[str, Heuristic | Unloaded] = {
        name: Unloaded(name, attachment, partial(_installed, name, settings))
        for name, attachment in registry.core_attachments().items()
    }
    standing.update(_own(settings))
    return Heuristics(
        heuristic
        for heuristic in standing.values()
        if place_of(heuristic, settings, requested=False) == "caller"
    )


def _built_in(settings: Settings) -> Iterator[Heuristic | Unloaded]:
    for name in registry.heuristics():
        attachment = registry.attachment(name)
        if attachment is not None:
            yield Unloaded(name, attachment, partial(_installed, name, settings))
            continue
        heuristic = _installed(name, settings)
        if heuristic is not None and heuristic.automatic:
            yield heuristic


def _own(settings: Settings) -> dict[str, Heuristic]:
    own = (one for one in registry.own_evaluators() if one.kind == "heuristic" and one.automatic)
    return {heuristic.name: as_configured(heuristic, settings) for heuristic in own}


def _installed(name: str, settings: Settings) -> Heuristic | None:
    """Load a built-in heuristic; ``None`` where its file was deleted or cannot be loaded."""
    try:
        heuristic = registry.evaluator(name)
    except ConfigurationError:
        return None
    return as_configured(heuristic, settings) if heuristic.kind == "heuristic" else None


def as_configured(heuristic: Any, settings: Settings) -> Heuristic:
    """Return a heuristic as the settings have it, where it depends on them."""
    configure = getattr(heuristic, "configured", None)
    return cast("Heuristic", heuristic if configure is None else configure(settings))


def place_of(
    heuristic: Heuristic | Unloaded, settings: Settings, *, requested: bool
) -> Literal["caller", "worker"] | None:
    """Return where a heuristic runs online: on the caller's thread, in the worker, or nowhere.

    Args:
        heuristic: which one.
        settings: those in force; ``heuristics`` decides.
        requested: whether it was asked for: by ``configure()``, the settings or an escalation.
    """
    if getattr(heuristic, "per", "answer") == "session":  # scored when a session has been idle
        return None
    if not (requested or (heuristic.automatic and settings.heuristics != "off")):
        return None
    return "caller" if heuristic.inline and settings.heuristics == "inline" else "worker"
