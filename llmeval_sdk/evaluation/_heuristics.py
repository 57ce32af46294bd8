"""Heuristics: which attach to a Record, and running one so that its failure is a value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

from llmeval_sdk._process.shield import shield, swallow
from llmeval_sdk.evaluation._outcome import failed, outcome
from llmeval_sdk.heuristics._budget import TooLargeError
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.protocols import Heuristic, Learner


_METADATA = frozenset((
    "retrieved_context", "extractions", "confidence", "expected_facts", "expected_response",
    "expected_retrieved_context", "retrieval", "field_config",
))  # fmt: skip
"""Fields of a Record that are only there when the app retrieved or annotated something."""


def _waits(heuristic: Heuristic) -> bool:
    return any(_METADATA.issuperset(need.split("|")) for need in heuristic.needs)


def is_built_in(heuristic: Heuristic) -> bool:
    """Say whether its code is ours."""
    home = getattr(heuristic.evaluate, "__module__", None) or ""
    return home.startswith("llmeval_sdk.heuristics.")


class _Plan(NamedTuple):
    heuristic: Heuristic
    name: str
    evaluate: Callable[[Record], Any] | None
    """Of a built-in that runs on the caller's thread: called without anything in between."""
    is_built_in: bool
    needs: tuple[int, ...]
    """Each a set of bits of which one has to be there."""
    applies: Any
    postponed: Any


def run_heuristic(heuristic: Heuristic, record: Record) -> Evaluation:
    """Run one heuristic; an exception in it, or its ``sys.exit()``, becomes an error."""
    begun = 0.0 if heuristic.inline else perf_counter()
    try:
        result = heuristic.evaluate(record)
        if (
            type(result) is Evaluation
            and type(result.value) is float
            and -_MAX < result.value < _MAX
        ):
            evaluation = result  # what the built-in scores return, without a second look
        else:
            evaluation = outcome(result, heuristic)
    except (Exception, SystemExit) as error:
        evaluation = raised(heuristic, error)
    if heuristic.inline or evaluation.duration is not None:
        return evaluation
    return replace(evaluation, duration=perf_counter() - begun)


_MAX = float("inf")


def raised(heuristic: Heuristic, error: BaseException) -> Evaluation:
    """Make an Evaluation of what a heuristic raised; what is not its own is raised again."""
    if isinstance(error, TooLargeError):
        return failed(heuristic, error.type, str(error))
    if not swallow(f"heuristic {heuristic.name}", error, calls_out=True):
        raise error
    return failed(heuristic, type(error).__name__, str(error))


class Heuristics:
    """Some heuristics, prepared so that asking which attach to a Record costs next to nothing."""

    __slots__ = ("_bits", "_learners", "_plans", "reads_anything")

    def __init__(self, heuristics: Iterable[Heuristic] = ()) -> None:
        self._plans: list[_Plan] = []
        self._learners: list[tuple[Callable[[Record], None], list[list[str]]]] = []
        """What learns, and of which fields of a Record one has to be there for it."""
        self._bits: dict[str, int] = {}
        """A bit for each field of Record that one of them needs."""
        self.reads_anything = False
        """True when one of them may have something to say of a Record without any metadata."""
        for heuristic in heuristics:
            self.add(heuristic)

    def add(self, heuristic: Heuristic) -> None:
        """Add a heuristic; one of the same name goes. The list is replaced, never changed."""
        fields = [need.split("|") for need in heuristic.needs]
        bits = dict(self._bits)
        for name in (name for names in fields for name in names):
            bits.setdefault(name, 1 << len(bits))
        built_in = is_built_in(heuristic)
        plan = _Plan(
            heuristic,
            heuristic.name,
            heuristic.evaluate if built_in and heuristic.inline else None,
            built_in,
            tuple(sum(bits[name] for name in set(names)) for names in fields),
            getattr(heuristic, "applies", None),
            getattr(heuristic, "postponed", None),
        )
        others = [each for each in self._plans if each.heuristic.name != heuristic.name]
        self._bits = bits
        self._plans = [*others, plan]
        self._learners = [
            (each.heuristic.learn, [need.split("|") for need in each.heuristic.needs])
            for each in self._plans
            if isinstance(each.heuristic, Learner)
        ]
        self.reads_anything = not all(_waits(each.heuristic) for each in self._plans)

    def __len__(self) -> int:
        return len(self._plans)

    def learn(self, record: Record) -> None:
        """Show a live record to the heuristics that learn from such. Call it once per record."""
        for learn, needs in self._learners:
            if all(any(getattr(record, name) is not None for name in names) for names in needs):
                with shield("heuristic: learn"):
                    learn(record)

    def get(self, name: str) -> Heuristic | None:
        """Return the heuristic of a name, if it is among these."""
        return next((each.heuristic for each in self._plans if each.heuristic.name == name), None)

    def run(
        self,
        record: Record,
        *,
        but: Collection[str] = (),
        postponed: bool = False,
        by: Callable[[Heuristic, Record], Evaluation | None] = run_heuristic,
        rest: Callable[[], None] | None = None,
    ) -> list[Evaluation]:
        """Run those whose inputs the Record has; what is not applicable leaves nothing.

        ``postponed`` runs only those that ask to be left to the worker for this Record, which
        otherwise are left out. ``by`` runs those that may call code of the app, or returns ``None``
        where it does not. ``rest`` is called after each, so that a worker can pause.
        """
        there = 0
        for field, bit in self._bits.items():
            if getattr(record, field) is not None:
                there |= bit
        found = []
        for heuristic, name, evaluate, built_in, needs, applies, later in self._plans:
            for need in needs:
                if not there & need:
                    break
            else:
                if name in but or (applies is not None and not applies(record)):
                    continue
                if postponed if later is None else later(record) is not postponed:
                    continue
                evaluation: Evaluation | None
                if evaluate is not None and not postponed:
                    try:
                        evaluation = evaluate(record)
                        if type(evaluation) is not Evaluation and evaluation is not None:
                            evaluation = outcome(evaluation, heuristic)
                    except (Exception, SystemExit) as error:
                        evaluation = raised(heuristic, error)
                else:
                    run = run_heuristic if built_in and not postponed else by
                    evaluation = run(heuristic, record)
                if evaluation is not None and (
                    evaluation.value is not None or evaluation.error is not None
                ):
                    found.append(evaluation)
                if rest is not None:
                    rest()
        return found
