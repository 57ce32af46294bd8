"""Running heuristics over a record, so that whatever happens in one becomes an Evaluation."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from time import perf_counter
from typing import Any, Literal, NamedTuple, TypeVar, cast

from llmeval_sdk import registry
from llmeval_sdk.heuristics import TooLargeError
from llmeval_sdk.model import Evaluation, Failure, Record, Score, values
from llmeval_sdk.model.chat import is_answer
from llmeval_sdk.model.fields import (
    CHUNK_TEXT,
    TOOL_RESULTS,
    alternatives,
    is_met,
    missing,
    reader_of,
    truncated,
)
from llmeval_sdk.model.placeholders import NOT_READ
from llmeval_sdk.model.protocols import Evaluator, Heuristic
from llmeval_sdk.process.loading import loading
from llmeval_sdk.process.pieces import is_larger
from llmeval_sdk.process.shield import swallow
from llmeval_sdk.registry import Attachment


# Running one evaluator over one Record, so that whatever happens in it becomes an Evaluation.


_MAX_MESSAGE = 2_000
MAX_METADATA = 1 << 20
"""Characters of metadata that an evaluator of the app may add to one evaluation."""
MAX_TEXT = 1 << 17
"""The most characters that an evaluation's value, label or explanation keeps."""
_TEXTS = ("value", "label", "explanation")
_INFINITY = float("inf")


_FIRST = "1"
"""The version of an Evaluation that does not say one."""


def run_heuristic(heuristic: Heuristic, record: Record) -> Evaluation:
    """Run one heuristic; an exception in it, or its ``sys.exit()``, becomes an error."""
    begun = 0.0 if heuristic.inline else perf_counter()
    try:
        result = heuristic.evaluate(record)
        if (
            type(result) is Evaluation
            and type(result.value) is float
            and -_INFINITY < result.value < _INFINITY
        ):
            evaluation = result  # as the built-in scores return it: there is nothing to check
        else:
            evaluation = outcome(result, heuristic)
    except (Exception, SystemExit) as error:
        evaluation = raised(heuristic, error)
    if evaluation.evaluator_version == _FIRST != heuristic.version:
        evaluation = replace(evaluation, evaluator_version=heuristic.version)
    if heuristic.inline or evaluation.duration is not None:
        return evaluation
    return replace(evaluation, duration=perf_counter() - begun)


def outcome(result: Any, evaluator: Evaluator) -> Evaluation:
    """Read what an evaluator returned: an Evaluation, or a plain float, bool, str or ``None``.

    A number that is not finite, or a value of any other type, is an error and never a score.
    """
    if type(result) is Evaluation:
        value: Any = result.value
        if value is None or type(value) is str or type(value) is bool:
            return result
        if type(value) in (float, int) and math.isfinite(value):
            return result if type(value) is float else replace(result, value=float(value))
        return replace(result, value=None, error=_not_a_value(value))
    if result is None or type(result) is bool or type(result) is str:
        return _named(evaluator, value=result)
    number = values.number(result)
    if number is None:
        return _named(evaluator, error=_not_a_value(result))
    return _named(evaluator, value=number)


def of_bounded_size(evaluation: Evaluation) -> Evaluation:
    """Return the evaluation of an app's evaluator, without metadata of more than a megabyte.

    Texts of more than `MAX_TEXT` characters are cut.
    """
    texts = {name: getattr(evaluation, name) for name in _TEXTS}
    long: dict[str, Any] = {
        name: truncated(text, MAX_TEXT)
        for name, text in texts.items()
        if type(text) is str and len(text) > MAX_TEXT
    }
    evaluation = replace(evaluation, **long) if long else evaluation
    if not evaluation.metadata or not is_larger(evaluation.metadata, MAX_METADATA):
        return evaluation
    note = f"the metadata, of more than {MAX_METADATA:,} characters"
    return replace(evaluation, metadata={"left_out": note})


def failed(evaluator: Evaluator, type: str, message: str = "") -> Evaluation:  # noqa: A002
    """Return the Evaluation of an evaluator that failed: an error and no value."""
    return _named(evaluator, error=Failure(type, message[:_MAX_MESSAGE]))


def raised(heuristic: Heuristic, error: BaseException) -> Evaluation:
    """Return the Evaluation of a heuristic that raised an exception.

    An exception that is not the heuristic's own, such as that of a signal handler, is raised again.
    """
    if isinstance(error, TooLargeError):
        return failed(heuristic, error.type, str(error))
    if not swallow(f"heuristic {heuristic.name}", error):
        raise error
    return failed(heuristic, type(error).__name__, str(error))


def not_applicable(evaluator: Evaluator, absent: str) -> Evaluation:
    """Return the Evaluation of an evaluator that was asked for by name and lacks an input."""
    return replace(
        outcome(None, evaluator),
        explanation=f"not applicable: no {absent}",
        metadata={"missing_inputs": absent},
    )


def run_requested(
    heuristic: Heuristic,
    record: Record,
    by: Callable[[Heuristic, Record], Evaluation | None] = run_heuristic,
) -> Evaluation | None:
    """Run a heuristic that was asked for by name, or return an Evaluation that names what it lacks.

    ``by`` runs it where the record has what it needs.
    """
    absent = missing(record, heuristic.needs)
    return by(heuristic, record) if absent is None else not_applicable(heuristic, absent)


def is_built_in(heuristic: Heuristic) -> bool:
    """Say whether the heuristic's code is part of this package.

    An adapter of ours that runs somebody else's code says so by ``runs_foreign_code``.
    """
    home = getattr(heuristic.evaluate, "__module__", None) or ""
    return home.startswith("llmeval_sdk.") and not getattr(heuristic, "runs_foreign_code", False)


_OPEN = ("request", "value", "field_config", "retrieval", "attributes")
"""Fields that may hold dicts and lists; all others are frozen through and through."""


def own_copy(record: Record) -> Record:
    """Return a copy of the record whose dicts and lists may be changed.

    An evaluator of the app gets such a copy, so that no exporter and no other evaluator sees what
    it changes.
    """
    changed = {
        name: _copied(value)
        for name in _OPEN
        if (value := getattr(record, name)) and type(value) is not str
    }
    return replace(record, **changed) if changed else record


def _copied(value: Any) -> Any:
    cls = type(value)
    if cls is dict:
        return {key: _copied(item) for key, item in value.items()}
    if cls is list or cls is tuple:
        return cls(_copied(item) for item in value)
    return value


def _named(evaluator: Evaluator, **fields: Any) -> Evaluation:
    return Evaluation(
        evaluator.name,
        evaluator_kind=evaluator.kind,
        evaluator_version=evaluator.version,
        **fields,
    )


def _not_a_value(result: object) -> Failure:
    shown = f"{result}" if isinstance(result, float) else type(result).__name__
    return Failure("malformed", f"expected a finite number, bool, str or None, not {shown}")


# Heuristics that attach to a Record by themselves, and running all that do.


_METADATA = frozenset((
    "retrieved_context", CHUNK_TEXT, "extractions", "confidence", "expected_facts",
    "expected_response", "expected_retrieved_context", "retrieval", "field_config", "steps",
    TOOL_RESULTS,
))  # fmt: skip
"""Fields of a Record that are only there when the app retrieved or annotated something."""


def _waits(heuristic: Heuristic | Unloaded) -> bool:
    return any(_METADATA.issuperset(alternatives(need)) for need in heuristic.needs)


class Unloaded:
    """A built-in heuristic that is loaded for the first record that it attaches to.

    Args:
        name: what it is called.
        attachment: to which records it attaches.
        load: loads it; ``None`` where it is no part of this installation.
    """

    kind: Literal["heuristic"] = "heuristic"
    automatic = True

    def __init__(
        self, name: str, attachment: Attachment, load: Callable[[], Heuristic | None]
    ) -> None:
        self.name = name
        self.needs = attachment.needs
        self.inline = attachment.inline
        self.per = attachment.per
        self.applies = registry.load(attachment.applies) if attachment.applies else None
        self._load = load
        self._loaded: Heuristic | None = None

    def load(self) -> Heuristic | None:
        """Return the heuristic itself, the same one each time."""
        if self._loaded is None:
            with loading:
                self._loaded = self._load()
        return self._loaded


_E = TypeVar("_E", bound=Evaluator)


def loaded(evaluator: _E | Unloaded) -> _E | Heuristic | None:
    """Return the evaluator itself; ``None`` where it is no part of this installation."""
    return evaluator.load() if isinstance(evaluator, Unloaded) else evaluator


class _PreparedHeuristic(NamedTuple):
    heuristic: Heuristic | Unloaded
    name: str
    evaluate: Callable[[Record], Any] | None
    """Of a built-in that runs on the caller's thread: called without anything in between."""
    is_built_in: bool
    needs: tuple[int, ...]
    """A set of bits for each need; the Record must have one bit of every set."""
    applies: Any
    postponed: Any

    @property
    def own(self) -> Heuristic:
        """The heuristic, which is loaded."""
        return cast("Heuristic", self.heuristic)


class Heuristics:
    """Some heuristics, prepared so that asking which attach to a Record costs next to nothing.

    Args:
        heuristics: which ones.
        asked_for: names of those that were asked for: they run wherever their inputs are there.
    """

    __slots__ = (
        "_asked_for", "_attaching", "_bits", "_plans", "_readers", "reads_anything",
        "runs_app_code",
    )  # fmt: skip

    def __init__(
        self, heuristics: Iterable[Heuristic | Unloaded] = (), *, asked_for: Collection[str] = ()
    ) -> None:
        self._asked_for = asked_for
        self._plans: dict[str, _PreparedHeuristic] = {}
        self._attaching: dict[int, list[_PreparedHeuristic]] = {}
        """Those that attach, by the fields that a Record has: few combinations ever occur."""
        self._bits: dict[str, int] = {}
        """A bit for each field of Record that one of them needs."""
        self._readers: list[tuple[Callable[[Record], object], int]] = []
        """What reads each of these fields, and its bit."""
        self.reads_anything = False
        """True when one of them may have something to say of a Record without any metadata."""
        self.runs_app_code = False
        """Whether one of them is a heuristic of the app."""
        for heuristic in heuristics:
            self.add(heuristic)

    def add(self, heuristic: Heuristic | Unloaded) -> None:
        """Add a heuristic, or put it in the place of one with the same name.

        Other threads may be running these heuristics, so lists are replaced and never changed.
        """
        fields = [alternatives(need) for need in heuristic.needs]
        bits = dict(self._bits)
        for name in (name for names in fields for name in names):
            bits.setdefault(name, 1 << len(bits))
        plan = self._prepared(
            heuristic, tuple(sum(bits[name] for name in set(names)) for names in fields)
        )
        self._bits = bits
        self._readers = [(reader_of(field), bit) for field, bit in bits.items()]
        self._put({**self._plans, plan.name: plan})

    def _prepared(
        self, heuristic: Heuristic | Unloaded, needs: tuple[int, ...]
    ) -> _PreparedHeuristic:
        evaluate, built_in = None, True
        if not isinstance(heuristic, Unloaded):
            built_in = is_built_in(heuristic)
            evaluate = heuristic.evaluate if built_in and heuristic.inline else None
        return _PreparedHeuristic(
            heuristic,
            heuristic.name,
            evaluate,
            built_in,
            needs,
            None if heuristic.name in self._asked_for else getattr(heuristic, "applies", None),
            getattr(heuristic, "postponed", None),
        )

    def _put(self, plans: dict[str, _PreparedHeuristic]) -> None:
        self._plans = plans
        self.reads_anything = not all(_waits(plan.heuristic) for plan in plans.values())
        self.runs_app_code = not all(plan.is_built_in for plan in plans.values())
        self._attaching = {}  # last: a thread that fills the new one has seen all of the above

    def _load(self, plan: _PreparedHeuristic) -> _PreparedHeuristic | None:
        """Load a heuristic that attaches to a record; forget it where it is not installed."""
        heuristic = loaded(plan.heuristic)
        if heuristic is None:
            self._put({name: other for name, other in self._plans.items() if name != plan.name})
            return None
        ready = self._prepared(heuristic, plan.needs)
        self._put({**self._plans, plan.name: ready})
        return ready

    def __len__(self) -> int:
        return len(self._plans)

    def get(self, name: str) -> Heuristic | None:
        """Return the heuristic of a name, if it is among these."""
        plan = self._plans.get(name)
        if plan is not None and isinstance(plan.heuristic, Unloaded):
            plan = self._load(plan)
        return None if plan is None else plan.own

    def run_one(self, name: str, record: Record) -> Evaluation | None:
        """Run the heuristic of a name; ``None`` if it is not among these."""
        heuristic = self.get(name)
        if heuristic is None:
            return None
        evaluation = run_heuristic(heuristic, record)
        return evaluation if is_built_in(heuristic) else of_bounded_size(evaluation)

    def run(  # noqa: C901, PLR0912
        self,
        record: Record,
        *,
        but: Collection[str] = (),
        own: bool = False,
        by: Callable[[Heuristic, Record], Evaluation | None] = run_heuristic,
        aside: Callable[[Heuristic, Record], Evaluation | None] | None = None,
        rest: Callable[[], None] | None = None,
    ) -> list[Evaluation]:
        """Run those whose inputs the Record has; what is not applicable leaves nothing.

        A heuristic that found nothing to compare in its inputs leaves an evaluation without a
        value, with the label ``not_checked``.

        Args:
            record: what is scored.
            but: names of heuristics that are left out.
            own: run only the heuristics that are the app's own.
            by: runs a heuristic of the app; it returns ``None`` where it did not run it.
            aside: does the same, after all others, for the heuristics that ask to be left to the
                worker for this record; by default these are left out.
            rest: called after each heuristic, so that a worker can pause.
        """
        attaching, there = self._attaching, 0
        for read, bit in self._readers:
            if read(record) is not None:
                there |= bit
        if (plans := attaching.get(there)) is None:
            every = self._plans.values()
            plans = [plan for plan in every if all(map(there.__and__, plan.needs))]
            attaching[there] = plans
        evaluations = []
        left: list[Heuristic] = []
        for plan in plans:
            heuristic, name, evaluate, built_in, _, applies, postponed = plan
            if name in but or (own and built_in):
                continue
            if applies is not None and not applies(record):
                continue
            if isinstance(heuristic, Unloaded):
                ready = self._load(plan)
                if ready is None or (ready.applies is not None and not ready.applies(record)):
                    continue
                heuristic, evaluate, postponed = ready.own, ready.evaluate, ready.postponed
            if postponed is not None and postponed(record):
                left.append(heuristic)
                continue
            evaluation: Evaluation | None
            if evaluate is not None:
                try:
                    evaluation = evaluate(record)
                    if type(evaluation) is not Evaluation and evaluation is not None:
                        evaluation = outcome(evaluation, heuristic)
                except (Exception, SystemExit) as error:
                    evaluation = raised(heuristic, error)
            else:
                evaluation = (run_heuristic if built_in else by)(heuristic, record)
            if evaluation is not None:
                if not built_in:
                    evaluation = of_bounded_size(evaluation)
                if evaluation.value is not None or _says_something(evaluation):
                    evaluations.append(evaluation)
            if rest is not None:
                rest()
        for heuristic in left:
            evaluation = None if aside is None else aside(heuristic, record)
            if evaluation is not None and (
                _says_something(evaluation) or evaluation.label == values.PENDING
            ):
                evaluations.append(evaluation)
            if rest is not None:
                rest()
        return evaluations


def _says_something(evaluation: Evaluation) -> bool:
    """Say whether an evaluation has a value, an error, or a label for why it has neither."""
    return (
        evaluation.value is not None
        or evaluation.error is not None
        or evaluation.label == values.NOT_CHECKED
    )


# A record without an answer: whether it abstained or the answer got lost, and what scores say.
#
# Where an answer was expected, a missing one is a miss for every score that compares the two. Where
# none was, a score that needs an answer has no value, and says that it is for want of an answer.


NO_ANSWER = "no_answer"
"""The key of an evaluation's metadata that says that the record has no answer, and why: `LOST` or
`ABSTAINED`."""
LOST = "lost"
ABSTAINED = values.ABSTAINED

_ANSWERS = ("response", "value")
_EXPECTED = ("expected_response", "expected_facts")
_RETURNED: dict[str, tuple[Score, Score]] = {
    "bool": (False, True),
    "float": (0.0, 1.0),
    "score": (0.0, 1.0),
    "yes_no": ("no", "yes"),
}
"""By what an evaluator gives: its worst and its best value."""


def answer_of(record: Record) -> Literal["given", "abstained", "lost"]:
    """Say whether a record has an answer, the app declared that it gives none, or it got lost.

    What is an answer, `is_answer` says. One that was not read, such as a stream, was given.
    """
    if record.abstained is not None:
        return "abstained"
    if is_answer(record.response) or is_answer(record.value) or NOT_READ in record.attributes:
        return "given"
    return "lost"


def without_answer(evaluator: Evaluator, record: Record) -> Evaluation | None:
    """Return what an evaluator says of a record without an answer; ``None`` where it has to run.

    ``None`` is also returned for an evaluator that needs no answer, or lacks more than that.
    """
    answers = [need for need in evaluator.needs if _is_answer(need)]
    if not answers:
        return None
    state = answer_of(record)
    compares = any(_is_expected(need) for need in evaluator.needs)
    is_absent = not all(is_met(need, record) for need in answers)
    if not is_absent and not (compares and state == ABSTAINED):
        return None
    if state == "given" and NOT_READ in record.attributes:
        return None  # nobody knows what the answer was
    if not all(is_met(need, record) for need in evaluator.needs if need not in answers):
        return None
    value: Score = None
    why = f"no answer: {record.abstained or 'it got lost'}"
    if compares:
        value, why = _compared(evaluator, record, why)
    return Evaluation(
        evaluator.name,
        value,
        explanation=why,
        metadata={NO_ANSWER: ABSTAINED if state == ABSTAINED else LOST},
        evaluator_kind=evaluator.kind,
        evaluator_version=evaluator.version,
    )


def _compared(evaluator: Evaluator, record: Record, why: str) -> tuple[Score, str]:
    """Return what no answer is worth to an evaluator that compares it with the expected one."""
    worst, best = _ends(evaluator)
    if record.expected_facts or (record.expected_response or "").strip():
        return worst, f"an answer was expected, and there is {why}"
    if record.abstained is not None:
        return best, f"no answer was expected, and there is {why}"
    return None, why


def _ends(evaluator: Any) -> tuple[Score, Score]:
    """Return the worst and the best value of an evaluator; ``None`` where it does not say."""
    given = evaluator.output
    if given is None:
        function = getattr(evaluator, "function", None) or evaluator.evaluate
        try:
            returned = inspect.signature(function).return_annotation
        except (TypeError, ValueError):
            returned = None
        given = getattr(returned, "__name__", str(returned))
        if given == "bool" and evaluator.kind == "judge":
            given = "yes_no"
        elif evaluator.kind == "heuristic" and is_built_in(evaluator):
            given = "bool"
    worst, best = _RETURNED.get(given, (None, None)) if isinstance(given, str) else (None, None)
    if given in ("float", "score") and values.high_is_bad(evaluator.name):
        return best, worst
    return worst, best


def _is_answer(need: str) -> bool:
    return not set(alternatives(need)).isdisjoint(_ANSWERS)


def _is_expected(need: str) -> bool:
    return not set(alternatives(need)).isdisjoint(_EXPECTED)
