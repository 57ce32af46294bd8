"""Which evaluators run on which row."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

from llmeval_sdk import registry
from llmeval_sdk._needs import lacking, missing
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.evaluation import outcome, run_heuristic
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.offline.results.outputs import Output, output_of
from llmeval_sdk.protocols import Heuristic, Judge, complete_judge


DEFAULT_JUDGES = (
    "relevance_to_query",
    "safety",
    "groundedness",
    "chunk_relevance",
    "correctness",
    "context_sufficiency",
)
"""Those of the agent-evaluation schema; they run where a judge model is configured."""

_ANSWERS = ("response", "value", "extractions")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Evaluators, and whether they were asked for: then a row says which inputs it lacks."""

    heuristics: tuple[Heuristic, ...]
    judges: tuple[Judge, ...]
    asked: bool
    _needs: tuple[tuple[str, ...], ...] = ()
    """Of each heuristic: many need the same, which is looked for once in a row."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, heuristics first."""
        return tuple(each.name for each in self._all)

    @property
    def outputs(self) -> dict[str, Output]:
        """What each gives, by name."""
        return {each.name: output_of(each) for each in self._all}

    @property
    def _all(self) -> tuple[Heuristic | Judge, ...]:
        return (*self.heuristics, *self.judges)

    def check(self, record: Record, place: str, *, answered: bool) -> None:
        """Refuse a row that cannot be meant: without a request, or with nothing to evaluate.

        ``answered=False`` says that the response is still to be made.

        Raises:
            DataError: naming the place and the column.
        """
        needed = not self.asked or any("request" in each.needs for each in self._all)
        if record.request is None and (needed or not answered):
            raise DataError(f"{place}: the column 'request' is missing")
        if answered and not self.asked and all(getattr(record, n) is None for n in _ANSWERS):
            raise DataError(
                f"{place}: the column 'response' is missing (or 'trace', or 'extractions'): pass "
                "model= (--model) to have it answered, or ask for the retrieval evaluators by name"
            )

    def score(self, record: Record) -> dict[str, Evaluation]:
        """Run the heuristics, in microseconds for most; what lacks inputs says so if asked for."""
        found = {}
        lacking = {needs: missing(record, needs) for needs in set(self._needs)}
        for each, needs in zip(self.heuristics, self._needs, strict=True):
            absent = lacking[needs]
            if absent is not None:
                if self.asked:
                    found[each.name] = not_applicable(each, absent)
                continue
            if not self.asked:
                applies = getattr(each, "applies", None)
                if applies is not None and not applies(record):
                    continue
            evaluation = run_heuristic(each, record)
            if self.asked or evaluation.value is not None or evaluation.error is not None:
                found[each.name] = evaluation
        return found

    def judges_for(self, record: Record, found: dict[str, Evaluation]) -> list[Judge]:
        """Return the judges that have their inputs; the others say in ``found`` what they lack."""
        ready = []
        for judge in self.judges:
            absent = lacking(judge, record)
            if absent is None:
                ready.append(judge)
            elif self.asked:
                found[judge.name] = not_applicable(judge, absent)
        return ready


def choose(evaluators: Sequence[Any] | None, settings: Settings, *, has_model: bool) -> Chosen:
    """Resolve the evaluators that were asked for, or the default ones.

    Raises:
        ConfigurationError: an unknown name, or something that is no evaluator.
    """
    if isinstance(evaluators, str):
        raise ConfigurationError(f"evaluators must be a list: [{evaluators!r}]")
    if evaluators is not None:
        given = {found.name: found for found in (_resolve(each, settings) for each in evaluators)}
        return _split(tuple(given.values()), asked=True)
    names = [*registry.HEURISTICS, *(DEFAULT_JUDGES if has_model else ())]
    own = [each for each in registry.own_evaluators() if each.kind == "heuristic"]
    default = {name: registry.evaluator(name) for name in names}
    default.update({each.name: each for each in own if each.automatic})
    return _split(tuple(default.values()), asked=False)


def _split(evaluators: tuple[Any, ...], *, asked: bool) -> Chosen:
    heuristics = tuple(each for each in evaluators if each.kind == "heuristic")
    judges = tuple(each for each in evaluators if each.kind == "judge")
    return Chosen(heuristics, judges, asked, tuple(tuple(each.needs) for each in heuristics))


def _resolve(evaluator: Any, settings: Settings) -> Any:
    found: Any = evaluator
    if isinstance(evaluator, str):
        family, colon, _ = evaluator.partition(":")
        if colon and family not in registry.FAMILIES:
            found = load(evaluator)
        else:
            return _configured(registry.evaluator(evaluator), settings)
    if getattr(found, "kind", None) not in ("heuristic", "judge"):
        from llmeval_sdk.judges.adapt import as_evaluator

        found = as_evaluator(found)
    return _configured(found, settings)


def _configured(evaluator: Any, settings: Settings) -> Any:
    if evaluator.kind == "judge":
        return complete_judge(evaluator).configured(settings)
    return evaluator.configured(settings) if hasattr(evaluator, "configured") else evaluator


def load(path: str) -> Any:
    """Import what ``module:attribute`` names; modules of the current folder are found too.

    Raises:
        ConfigurationError: there is no such module or attribute, or the module raised.
    """
    module, _, attribute = path.partition(":")
    if not module or not attribute:
        raise ConfigurationError(f"{path!r} is no address: expected MODULE:NAME, as my_app:answer")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return attrgetter(attribute)(import_module(module))
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"{path!r} cannot be loaded: {error}") from error
    except Exception as error:
        kind = type(error).__name__
        raise ConfigurationError(f"{path!r} cannot be loaded: {kind}: {error}") from error


def not_applicable(evaluator: Heuristic | Judge, absent: str) -> Evaluation:
    """Say which input an evaluator that was asked for did not find."""
    return replace(
        outcome(None, evaluator),
        explanation=f"not applicable: no {absent}",
        metadata={"missing_inputs": absent},
    )
