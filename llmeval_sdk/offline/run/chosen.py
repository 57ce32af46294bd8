"""Which evaluators run on which row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llmeval_sdk._needs import lacking, missing
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.evaluation import not_applicable, run_heuristic
from llmeval_sdk.evaluation.resolve import (
    find_modules_here,
    resolve_all,
    standing_heuristics,
    standing_judges,
)
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.offline.results.outputs import Output, output_of
from llmeval_sdk.protocols import Evaluator, Heuristic, Judge


_ANSWERS = ("response", "value", "extractions")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Evaluators, and whether they were asked for: then a row says which inputs it lacks."""

    heuristics: tuple[Heuristic, ...]
    judges: tuple[Judge, ...]
    are_requested: bool
    _needs: tuple[tuple[str, ...], ...] = ()
    """Of each heuristic: many need the same fields, which are looked for once in a row."""

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
        needed = not self.are_requested or any("request" in each.needs for each in self._all)
        if record.request is None and (needed or not answered):
            raise DataError(f"{place}: the column 'request' is missing")
        has_answer = any(getattr(record, name) is not None for name in _ANSWERS)
        if answered and not self.are_requested and not has_answer:
            raise DataError(
                f"{place}: the column 'response' is missing (or 'trace', or 'extractions'): pass "
                "model= (--model) to have it answered, or ask for the retrieval evaluators by name"
            )

    def score(self, record: Record) -> dict[str, Evaluation]:
        """Run the heuristics, in microseconds for most; what lacks inputs says so if asked for."""
        evaluations = {}
        lacking = {needs: missing(record, needs) for needs in set(self._needs)}
        for heuristic, needs in zip(self.heuristics, self._needs, strict=True):
            absent = lacking[needs]
            if absent is not None:
                if self.are_requested:
                    evaluations[heuristic.name] = not_applicable(heuristic, absent)
                continue
            if not self.are_requested:
                applies = getattr(heuristic, "applies", None)
                if applies is not None and not applies(record):
                    continue
            evaluation = run_heuristic(heuristic, record)
            if self.are_requested or evaluation.value is not None or evaluation.error is not None:
                evaluations[heuristic.name] = evaluation
        return evaluations

    def judges_for(self, record: Record, evaluations: dict[str, Evaluation]) -> list[Judge]:
        """Return the judges that have their inputs.

        The others say in ``evaluations`` what they lack, where they were asked for.
        """
        ready = []
        for judge in self.judges:
            absent = lacking(judge, record)
            if absent is None:
                ready.append(judge)
            elif self.are_requested:
                evaluations[judge.name] = not_applicable(judge, absent)
        return ready


def choose(evaluators: Sequence[Any] | None, settings: Settings, *, has_model: bool) -> Chosen:
    """Resolve the evaluators that were asked for, or the default ones.

    Raises:
        ConfigurationError: an unknown name, or something that is no evaluator.
    """
    if isinstance(evaluators, str):
        raise ConfigurationError(f"evaluators must be a list: [{evaluators!r}]")
    chosen: list[Evaluator] = []
    if evaluators is not None:
        find_modules_here()
        chosen += resolve_all(evaluators, settings)
    else:
        chosen += standing_heuristics(settings, every_built_in=True)
        chosen += standing_judges(settings) if has_model else ()
    heuristics = tuple(each for each in chosen if each.kind == "heuristic")
    judges = tuple(each for each in chosen if each.kind == "judge")
    needs = tuple(tuple(heuristic.needs) for heuristic in heuristics)
    return Chosen(heuristics, judges, evaluators is not None, needs)
