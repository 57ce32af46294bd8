"""What settings alone say of a plan: what may leave, where records survive, who works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llmeval_sdk.config import SCORES, Settings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.redaction import Redactor
from llmeval_sdk.spool import Folder
from llmeval_sdk.tracing._inner import off


def what_may_leave(settings: Settings) -> bool | str:
    """Return what content may leave. Raises `ConfigurationError` for any other word."""
    if settings.capture_content not in (True, False, SCORES):
        raise ConfigurationError(
            f"capture_content={settings.capture_content!r}: use True, False or {SCORES!r}"
        )
    return settings.capture_content


def make_redactor(
    settings: Settings, custom: Callable[[str], str] | None, problems: list[str], *, strict: bool
) -> Redactor:
    """Make the redactor. After a mistake in the environment it takes out all it can."""

    def quietly(text: str) -> str:
        off()  # decorated helpers of the redactor must not make spans that need redaction
        assert custom is not None
        return custom(text)

    own = None if custom is None else quietly
    try:
        return Redactor(settings.redact, own)
    except ConfigurationError as error:
        if strict:
            raise
        problems.append(f"{error}; using all detectors")
        return Redactor(("all",), own)


def spool_of(settings: Settings) -> Folder | None:
    if not settings.spool:
        return None
    return Folder(
        settings.spool, file_bytes=settings.spool_bytes, max_bytes=settings.spool_max_bytes
    )


def role_of(settings: Settings, problems: list[str], *, strict: bool) -> str:
    """Return the role of this process. Without a spool no other process can do its work."""
    if settings.worker == "thread" or settings.spool:
        return settings.worker
    problem = f"worker={settings.worker!r} needs a spool: set LLMEVAL_SPOOL to a folder"
    if strict:
        raise ConfigurationError(problem)
    problems.append(f"{problem}; using a thread")
    return "thread"


def recent_scores_of(settings: Settings, name: str) -> list[tuple[str | None, float]]:
    """Read an evaluator's latest scores from the store, if there is one; see `Plan.recent`."""
    from llmeval_sdk.store.reader import recent_scores

    return recent_scores(settings.store, name)


def ledger_of(settings: Settings) -> Any:
    from llmeval_sdk.store.files import path_of
    from llmeval_sdk.store.ledger import HostLedger

    return HostLedger(path_of(settings.store).with_suffix(".budget"))
