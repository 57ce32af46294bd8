"""Heuristics that attach to a Record by themselves, and running all that do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from llmeval_sdk.evaluation._running import is_built_in, outcome, raised, run_heuristic
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.model.fields import CHUNK_TEXT, TOOL_RESULTS, alternatives, is_met, reader_of
from llmeval_sdk.model.protocols import Heuristic, Learner
from llmeval_sdk.process.shield import shield


_METADATA = frozenset((
    "retrieved_context", CHUNK_TEXT, "extractions", "confidence", "expected_facts",
    "expected_response", "expected_retrieved_context", "retrieval", "field_config", "steps",
    TOOL_RESULTS,
))  # fmt: skip
"""Fields of a Record that are only there when the app retrieved or annotated something."""


def _waits(heuristic: Heuristic) -> bool:
    return any(_METADATA.issuperset(alternatives(need)) for need in heuristic.needs)


class _PreparedHeuristic(NamedTuple):
    heuristic: Heuristic
    name: str
    evaluate: Callable[[Record], Any] | None
    """Of a built-in that runs on the caller's thread: called without anything in between."""
    is_built_in: bool
    needs: tuple[int, ...]
    """A set of bits for each need; the Record must have one bit of every set."""
    applies: Any
    postponed: Any


class Heuristics:
    """Some heuristics, prepared so that asking which attach to a Record costs next to nothing.

    Args:
        heuristics: which ones.
        asked_for: names of those that were asked for: they run wherever their inputs are there.
    """

    __slots__ = (
        "_asked_for", "_attaching", "_bits", "_learners", "_plans", "_postpones", "_readers",
        "reads_anything",
    )  # fmt: skip

    def __init__(
        self, heuristics: Iterable[Heuristic] = (), *, asked_for: Collection[str] = ()
    ) -> None:
        self._asked_for = asked_for
        self._plans: list[_PreparedHeuristic] = []
        self._postpones = False
        """Whether one of them may ask to be left to the worker."""
        self._attaching: dict[int, list[_PreparedHeuristic]] = {}
        """Those that attach, by the fields that a Record has: few combinations ever occur."""
        self._learners: list[tuple[Callable[[Record], None], tuple[str, ...]]] = []
        """Of the heuristics that learn: what learns, and the needs that a Record must meet."""
        self._bits: dict[str, int] = {}
        """A bit for each field of Record that one of them needs."""
        self._readers: list[tuple[Callable[[Record], Any], int]] = []
        """What reads each of these fields, and its bit."""
        self.reads_anything = False
        """True when one of them may have something to say of a Record without any metadata."""
        for heuristic in heuristics:
            self.add(heuristic)

    def add(self, heuristic: Heuristic) -> None:
        """Add a heuristic in place of one with the same name.

        Other threads may be running these heuristics, so lists are replaced and never changed.
        """
        fields = [alternatives(need) for need in heuristic.needs]
        bits = dict(self._bits)
        for name in (name for names in fields for name in names):
            bits.setdefault(name, 1 << len(bits))
        built_in = is_built_in(heuristic)
        plan = _PreparedHeuristic(
            heuristic,
            heuristic.name,
            heuristic.evaluate if built_in and heuristic.inline else None,
            built_in,
            tuple(sum(bits[name] for name in set(names)) for names in fields),
            None if heuristic.name in self._asked_for else getattr(heuristic, "applies", None),
            getattr(heuristic, "postponed", None),
        )
        others = [other for other in self._plans if other.name != heuristic.name]
        self._bits = bits
        self._readers = [(reader_of(field), bit) for field, bit in bits.items()]
        self._plans = [*others, plan]
        self._postpones = any(plan.postponed is not None for plan in self._plans)
        self._learners = [
            (plan.heuristic.learn, plan.heuristic.needs)
            for plan in self._plans
            if isinstance(plan.heuristic, Learner)
        ]
        self.reads_anything = not all(_waits(plan.heuristic) for plan in self._plans)
        self._attaching = {}  # last: a thread that fills the new one has seen all of the above

    def __len__(self) -> int:
        return len(self._plans)

    def learn(self, record: Record) -> None:
        """Show a live record to the heuristics that learn from such. Call it once per record."""
        for learn, needs in self._learners:
            if all(is_met(need, record) for need in needs):
                with shield("heuristic: learn"):
                    learn(record)

    def get(self, name: str) -> Heuristic | None:
        """Return the heuristic of a name, if it is among these."""
        return next((plan.heuristic for plan in self._plans if plan.name == name), None)

    def run(  # noqa: C901, PLR0912
        self,
        record: Record,
        *,
        but: Collection[str] = (),
        postponed: bool = False,
        by: Callable[[Heuristic, Record], Evaluation | None] = run_heuristic,
        rest: Callable[[], None] | None = None,
    ) -> list[Evaluation]:
        """Run those whose inputs the Record has; what is not applicable leaves nothing.

        Args:
            record: what is scored.
            but: names of heuristics that are left out.
            postponed: run only the heuristics that ask to be left to the worker for this record;
                by default exactly those are left out.
            by: runs a heuristic that may call code of the app; it returns ``None`` where it did
                not run it.
            rest: called after each heuristic, so that a worker can pause.
        """
        if postponed and not self._postpones:
            return []
        attaching, there = self._attaching, 0
        for read, bit in self._readers:
            if read(record) is not None:
                there |= bit
        if (plans := attaching.get(there)) is None:
            plans = [plan for plan in self._plans if all(map(there.__and__, plan.needs))]
            attaching[there] = plans
        evaluations = []
        for heuristic, name, evaluate, built_in, _, applies, later in plans:
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
                evaluations.append(evaluation)
            if rest is not None:
                rest()
        return evaluations
