"""Asks a decision model what judges would ask a judge model, in one request for each record."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from math import exp, isfinite, log
from typing import Any, NamedTuple

from llmeval_sdk.errors import ConfigurationError, JudgeError
from llmeval_sdk.evaluation.budget import DECISION_BUDGET
from llmeval_sdk.evaluation.calibrations import Calibrations
from llmeval_sdk.evaluation.limiter import BudgetLimiter
from llmeval_sdk.evaluation.models import CHARACTERS_PER_TOKEN, RateLimiter, Spending
from llmeval_sdk.evaluation.scoring import failed, not_applicable
from llmeval_sdk.evaluation.verdicts import (
    VerdictKey,
    Verdicts,
    decision_key,
)
from llmeval_sdk.judges import BaseJudge
from llmeval_sdk.judges.base import LEAST_CHANCE, Typed, TypedForm, typed_form_of
from llmeval_sdk.judges.models.decisions.client import neutral_texts
from llmeval_sdk.judges.prompt import SECTION_CHARACTERS, fair_limit, shortened
from llmeval_sdk.model import (
    Answer,
    Decision,
    Evaluation,
    Failure,
    ModelCall,
    Question,
    Record,
    Usage,
)
from llmeval_sdk.model.chat import parts_without_text
from llmeval_sdk.model.fields import lacking
from llmeval_sdk.model.protocols import DecisionModel, Judge, answer_by, further_place
from llmeval_sdk.process.shield import shield
from llmeval_sdk.process.threads import within
from llmeval_sdk.statistics.calibration import Calibration
from llmeval_sdk.tracing import disabled


# Evaluations made of a decision model's answers, and the form in which answers are kept.


def decided(judge: Judge, evaluation: Evaluation, **about: Any) -> Evaluation:
    """Return an evaluation as the decision on a judge's question, with further fields."""
    return replace(
        evaluation,
        name=judge.name,
        evaluator_kind="decision",
        evaluator_version=judge.version,
        **about,
    )


def _failure_of(judge: Judge, error: BaseException) -> Evaluation:
    """Return the evaluation of a judge whose question or answer raised an exception."""
    kind = error.type if isinstance(error, JudgeError) else type(error).__name__
    return failed(judge, kind, str(error))


def read(
    form: TypedForm,
    answers: Mapping[str, Answer],
    threshold: float,
    calibration: Calibration | None,
) -> Evaluation:
    """Read the answers to a judge's questions as its calibration makes them.

    The odds of each answer are multiplied alike, so that the judge's probability becomes the
    calibrated one. Its value, its confidence and what it says of each chunk or fact then agree
    with it. The metadata keeps the model's own probability.
    """
    evaluation = form.read(answers, threshold)
    raw = evaluation.probability
    if raw is None or calibration is None:
        return evaluation
    target, shift, reached = calibration(raw), 0.0, raw
    for _ in range(_MOST_STEPS):  # one is enough, but where the judge sums up several answers
        if abs(reached - target) < _CLOSE_ENOUGH:
            break
        shift += _logit(target) - _logit(reached)
        evaluation = form.read(answers, threshold, exp(min(max(shift, -_FARTHEST), _FARTHEST)))
        reached, before = evaluation.probability or 0.0, reached
        if reached == before:
            break  # all that it may say counts as good, or as bad
    return replace(evaluation, metadata={**evaluation.metadata, "raw_probability": raw})


_MOST_STEPS, _CLOSE_ENOUGH, _FARTHEST = 30, 1e-7, 50.0


def _logit(probability: float) -> float:
    clipped = min(max(probability, LEAST_CHANCE), 1 - LEAST_CHANCE)
    return log(clipped / (1 - clipped))


def packed(
    judge: Judge, answers: Mapping[str, Answer], model: str, cut: Sequence[str]
) -> Evaluation:
    """Return what a cache of verdicts keeps of the answers to a judge's questions."""
    chances = {name: dict(answer.probabilities) for name, answer in answers.items()}
    notes = {"cut": list(cut)} if cut else {}
    return Evaluation(
        judge.name,
        metadata={"answers": chances, "model": model, **notes},
        evaluator_kind="decision",
        evaluator_version=judge.version,
    )


def _unpacked(kept: Evaluation | None, questions: Iterable[Question]) -> dict[str, Answer] | None:
    """Return the answers that `packed` kept; ``None`` where these are no answers to the questions.

    A cache that other processes or hosts write may hold anything.
    """
    chances = None if kept is None else kept.metadata.get("answers")
    if not isinstance(chances, Mapping):
        return None
    answers = {str(name): Answer(chance) for name, chance in chances.items()}
    failed_ones = (answer.error for answer in checked(questions, answers).values())
    return answers if all(error is None for error in failed_ones) else None


# What is asked of a decision model about one record: the sections and questions of all judges.

TOKENS_PER_PART = 16
"""What a section or a question may add to a request beside its words."""


@dataclass(slots=True)
class Inquiry:
    """Joins the typed forms of several judges, so that each text is sent once."""

    questions: list[Question] = field(default_factory=list)
    cached: int = 0
    """Judges that ask nothing because the same was answered before."""
    _texts: dict[str, str] = field(default_factory=dict)

    def add(self, judge: str, form: TypedForm) -> None:
        """Take in a judge's sections and questions.

        A section whose title another judge uses for another text gets a title of its own, which
        the judge's questions then name.
        """
        renamed: dict[str, str] = {}
        for section in form.sections:
            title = section.name
            while self._texts.setdefault(title, section.text) != section.text:
                title = f"{title} ({judge})"
            if title != section.name:
                renamed[section.name] = title
        self.questions += (
            [_repointed(question, renamed) for question in form.questions]
            if renamed
            else form.questions
        )

    @property
    def limit(self) -> int:
        """How many characters of a section are sent: the middle of a longer one is left out."""
        lengths = [len(text) for text in self._texts.values()]
        return min(SECTION_CHARACTERS, fair_limit(lengths))

    def data(self) -> dict[str, str]:
        """Return the sections by title; nothing in them can act on a model without being read."""
        limit = self.limit
        return neutral_texts({title: shortened(text, limit) for title, text in self._texts.items()})

    def most(self, requests: int = 1) -> Usage:
        """Return the most tokens that so many requests may use, each with all sections."""
        shown = sum(len(title) + len(text) for title, text in self._texts.items())
        asked = sum(
            len(question.name)
            + len(question.instructions)
            + sum(len(option.value) + len(option.description) for option in question.options)
            for question in self.questions
        )
        parts = len(self._texts) * requests + len(self.questions)
        words = shown * requests + asked
        tokens = words // CHARACTERS_PER_TOKEN + TOKENS_PER_PART * parts
        return Usage(tokens, 0, tokens)

    @staticmethod
    def cut(form: TypedForm, limit: int) -> list[str]:
        """Return the titles of a form's sections that are longer than a limit."""
        return [section.name for section in form.sections if len(section.text) > limit]


@dataclass(frozen=True, slots=True)
class Asking:
    """A judge whose questions have to be asked."""

    judge: Judge
    form: TypedForm
    key: VerdictKey | None


class Prepared(NamedTuple):
    """What is asked about one record, for which judges."""

    record: Record
    inquiry: Inquiry
    asking: Sequence[Asking]
    evaluations: Mapping[str, Evaluation]
    """The outcomes that are known without asking, by judge."""


def _repointed(question: Question, renamed: Mapping[str, str]) -> Question:
    notes = [
        f'In the data, the section "{title}" of this question is called "{new}".'
        for title, new in renamed.items()
        if f'"{title}"' in question.instructions
    ]
    return replace(question, instructions="\n".join((question.instructions, *notes)))


def checked(questions: Iterable[Question], answers: object) -> dict[str, Answer]:
    """Return an answer to each question; what is no usable answer is an error of its question."""
    found = answers if isinstance(answers, Mapping) else {}
    return {question.name: _checked(question, found.get(question.name)) for question in questions}


def _checked(question: Question, answer: object) -> Answer:
    if not isinstance(answer, Answer) or not isinstance(answer.probabilities, Mapping):
        return _malformed("there is no answer to this question")
    if answer.error is not None:
        return answer
    names = [option.value for option in question.options] or ["yes", "no"]
    chances = answer.probabilities
    if chances.keys() != set(names):
        return _malformed(f"the answer is about {sorted(map(str, chances))[:9]}, not {names[:9]}")
    if not all(map(_is_probability, chances.values())):
        return _malformed("a probability is no number from 0 to 1")
    total = sum(chances.values())
    if abs(total - 1) > min(MOST_ROUNDING, ROUNDING * (len(names) + 1)):
        return _malformed(f"the probabilities add up to {total:.4g}, not to 1")
    return Answer({name: min(chances[name] / total, 1.0) for name in names})


ROUNDING, MOST_ROUNDING = 0.005, 0.05
"""How far the sum may be from 1, for each option and altogether: some servers give two decimals."""


def _is_probability(chance: Any) -> bool:
    return type(chance) in (float, int) and isfinite(chance) and 0 <= chance <= 1


def _malformed(message: str) -> Answer:
    return Answer(error=Failure("malformed", message))


def shares(usage: Usage | None, questions: Sequence[int]) -> list[Usage | None]:
    """Divide the usage of a request among judges by how many questions each asked, exactly."""
    if usage is None:
        return [None] * len(questions)
    ends = list(accumulate(questions))
    return [
        Usage(
            _part(usage.input_tokens, begin, end, ends[-1]),
            _part(usage.output_tokens, begin, end, ends[-1]),
            _part(usage.total_tokens, begin, end, ends[-1]),
            None if usage.cost_usd is None else usage.cost_usd * (end - begin) / ends[-1],
        )
        for begin, end in pairwise((0, *ends))
    ]


def _part(tokens: int, begin: int, end: int, whole: int) -> int:
    return tokens * end // whole - tokens * begin // whole


THRESHOLD = 0.5
"""The probability from which on an outcome is good, where a judge has no threshold of its own."""
ACCOUNT = "(decisions)"
"""The account of the budget to which requests to a decision model are charged. No judge can have
this name, or it would spend from this account."""
MAX_KINDS = 100
"""How many kinds of parts that are no text are counted apart."""
_PART_FOR_ANSWERS = 0.95
"""When this part of the time is over, the answers that there are by then have to do."""
MOST_JUDGES = 1_000
"""Judges whose typed forms are remembered."""


class Decided(NamedTuple):
    """What came of asking about one record."""

    evaluations: Mapping[str, Evaluation]
    """One for each judge, by its name."""
    calls: Sequence[ModelCall] = ()
    """The calls of the model, which all these evaluations share."""


def _in_turn(
    judges: Sequence[Judge], evaluations: Mapping[str, Evaluation]
) -> dict[str, Evaluation]:
    return {judge.name: evaluations[judge.name] for judge in judges}


def divided(judges: Iterable[Judge]) -> tuple[list[Judge], list[Judge]]:
    """Return the judges that a decision model can be asked in place of, and the others.

    Raises:
        ConfigurationError: One has more options or levels than any decision model takes.
    """
    typed: list[Judge] = []
    others: list[Judge] = []
    for judge in judges:
        (others if typed_form_of(judge) is None else typed).append(judge)
    return typed, others


def checked_thresholds(thresholds: Mapping[str, float] | None) -> Mapping[str, float]:
    """Return thresholds by judge as they are.

    Raises:
        ConfigurationError: One is no number from 0 to 1.
    """
    for judge, threshold in (thresholds or {}).items():
        if isinstance(threshold, bool) or not isinstance(threshold, (int, float)):
            raise ConfigurationError(f"the threshold of {judge!r} is a number, not {threshold!r}")
        if not 0 <= threshold <= 1:
            raise ConfigurationError(f"the threshold of {judge!r} is 0 to 1, not {threshold:g}")
    return thresholds or {}


class Decider:
    """Asks one decision model what judges ask, inside a budget. Used by one event loop.

    Args:
        model: Which model.
        limiter: Of the budget that pays for the requests.
        concurrency: Requests at a time, at most.
        timeout: Seconds that asking about a record may take, with all that it waits for.
        thresholds: By the name of the judge, the probability from which on its outcome is good.
        prices: Own prices by model, in USD per million input and output tokens.
        patience: Seconds that a request waits for a model that is down; see `RateLimiter`.
        verdicts: Where answers of earlier records are found, and those of this run are kept.
        calibrations: What corrects a judge's probabilities, by judge.

    Raises:
        ConfigurationError: A threshold is no number from 0 to 1.
    """

    def __init__(
        self,
        model: DecisionModel,
        limiter: BudgetLimiter,
        *,
        concurrency: int = DECISION_BUDGET.concurrency,
        timeout: float = 60.0,
        thresholds: Mapping[str, float] | None = None,
        prices: Mapping[str, tuple[float, ...]] | None = None,
        patience: float = 0.0,
        verdicts: Verdicts | None = None,
        calibrations: Calibrations | None = None,
    ) -> None:
        self.model = model
        self.left_out: Counter[str] = Counter()
        """Parts of requests that were not shown, because they are no text, by their type."""
        self._rate_limiter = RateLimiter(
            limiter, concurrency=concurrency, prices=prices, patience=patience, model=model
        )
        self._timeout = timeout
        self.thresholds = checked_thresholds(thresholds)
        self.verdicts = verdicts
        self._calibrations = calibrations
        self._typed: dict[int, tuple[Judge, Typed | None]] = {}
        self._is_warm = False

    async def decide(self, record: Record, judges: Sequence[Judge]) -> Decided:
        """Ask about a record what these judges ask, in one request. Never raises.

        A judge whose inputs are missing, whose outcome needs no model, or whose question was
        answered before, asks nothing.
        """
        await self._warm()
        prepared = self.prepared(record, judges)
        if not prepared.asking:
            return Decided(_in_turn(judges, prepared.evaluations))
        decision, calls = await self._asked(prepared.inquiry)
        took = sum(call.end_ns - call.start_ns for call in calls) / 1e9  # without any waiting
        answered = self._read(prepared, decision, took)
        return Decided(_in_turn(judges, {**prepared.evaluations, **answered}), calls)

    def prepared(self, record: Record, judges: Sequence[Judge]) -> Prepared:
        """Return what has to be asked, for which judges, and the outcomes that are known."""
        inquiry = Inquiry()
        evaluations: dict[str, Evaluation] = {}
        asking: list[Asking] = []
        for judge in judges:
            known = self._prepared(judge, record)
            if isinstance(known, Evaluation):
                evaluations[judge.name] = known
                inquiry.cached += bool(known.metadata.get("cached"))
            else:
                inquiry.add(judge.name, known.form)
                asking.append(known)
        return Prepared(record, inquiry, asking, evaluations)

    async def _warm(self) -> None:
        """Let the model make its client before the first request's time begins."""
        if not self._is_warm:
            self._is_warm = True
            warm = getattr(self.model, "warm", None)
            if warm is not None:
                with shield("decision model", calls_out=True):
                    await warm()

    def _prepared(self, judge: Judge, record: Record) -> Evaluation | Asking:
        """Return the outcome that is known without asking, else what has to be asked."""
        try:
            absent = lacking(judge, record, blanks=True)
            if absent is not None:
                return decided(judge, not_applicable(judge, absent))
            settled = judge.settled(record) if isinstance(judge, BaseJudge) else None
            if settled is not None:
                return decided(judge, settled)
            form = self._form(judge, record)
            if not form.questions:
                return decided(judge, form.read({}, THRESHOLD))
            key, kept = None, None
            if self.verdicts is not None:
                key = decision_key(judge, self.model, form)
                kept = self.verdicts.get(key)
            answers = _unpacked(kept, form.questions)
        except (Exception, SystemExit) as error:  # code of the app's own, and a cache's file
            return decided(judge, _failure_of(judge, error))
        if kept is None or answers is None:
            return Asking(judge, form, key)
        known = kept.metadata
        notes = {"cached": True, **({"cut": known["cut"]} if "cut" in known else {})}
        if parts := parts_without_text(record.request):
            notes["left_out"] = parts
        return self._evaluation(Asking(judge, form, key), answers, str(known.get("model")), notes)

    def _form(self, judge: Judge, record: Record) -> TypedForm:
        entry = self._typed.get(id(judge))
        if entry is None:
            if len(self._typed) >= MOST_JUDGES:  # an app that makes a judge for every request
                self._typed.clear()
            entry = self._typed[id(judge)] = judge, typed_form_of(judge)
        typed = entry[1]
        if typed is None:
            raise JudgeError("not_typed", f"{judge.name} cannot be asked as a typed question")
        return typed(record)

    async def _asked(self, inquiry: Inquiry) -> tuple[Decision | Failure, Sequence[ModelCall]]:
        """Ask the model within the budget; the timeout bounds all of it, with what it waits for."""
        account = Spending(self.model, self._rate_limiter, ACCOUNT)
        until = asyncio.get_running_loop().time() + _PART_FOR_ANSWERS * self._timeout
        try:
            with disabled():  # a model of the app's own is no part of its trace
                # A timeout cancels this: `Spending` then settles the reservation of a request that
                # is under way, and while a place or the budget is waited for there is none.
                paid = account.paid(
                    "decide", inquiry.most(), lambda: self._answered(inquiry, until)
                )
                decision = await within(self._timeout, paid)
        except (TimeoutError, asyncio.TimeoutError):
            return Failure("timeout", f"no answer after {self._timeout:g} s"), account.calls
        except JudgeError as error:
            return Failure(error.type, str(error)), account.calls
        except (Exception, SystemExit) as error:
            return Failure(type(error).__name__, str(error)), account.calls
        return replace(decision, usage=account.usage), account.calls

    async def _answered(self, inquiry: Inquiry, until: float) -> Decision:
        """Ask the model once; its answer is checked, because one of the app's may return anything.

        Raises:
            JudgeError: It gave something else.
        """
        place = further_place.set(self._rate_limiter.further_place)
        deadline = answer_by.set(until)
        try:
            decision: object = await self.model.decide(inquiry.data(), inquiry.questions)
        finally:
            further_place.reset(place)
            answer_by.reset(deadline)
        if isinstance(decision, Decision):
            return decision
        given = type(decision).__name__
        raise JudgeError("malformed", f"the model returned no Decision but a {given}")

    def _read(
        self, prepared: Prepared, decision: Decision | Failure, seconds: float
    ) -> dict[str, Evaluation]:
        """Return the outcome of each judge that asked something."""
        asking, inquiry = prepared.asking, prepared.inquiry
        if isinstance(decision, Failure):
            type_, message = decision.type, decision.message
            return {
                judge.name: decided(judge, failed(judge, type_, message), duration=seconds)
                for judge in (one.judge for one in asking)
            }
        answers = checked(inquiry.questions, decision.answers)
        absent = parts_without_text(prepared.record.request)
        for kind, count in absent.items():  # the kinds are what a request calls its parts
            known = kind if kind in self.left_out or len(self.left_out) < MAX_KINDS else "other"
            self.left_out[known] += count
        model = decision.model or self.model.model
        used = shares(decision.usage, [len(one.form.questions) for one in asking])
        evaluations, limit = {}, inquiry.limit
        for one, usage in zip(asking, used, strict=True):
            cut = inquiry.cut(one.form, limit)
            notes: dict[str, Any] = {"cut": cut} if cut else {}
            if absent:
                notes["left_out"] = absent
            evaluations[one.judge.name] = self._evaluation(
                one, answers, model, notes, usage=usage, duration=seconds
            )
            with shield("kept decisions", calls_out=True):
                self._keep(one, answers, model, cut)
        return evaluations

    def _evaluation(
        self,
        one: Asking,
        answers: Mapping[str, Answer],
        model: str,
        notes: Mapping[str, object],
        **about: object,
    ) -> Evaluation:
        """Return the outcome of a judge with notes for its metadata, and what else is known."""
        judge = one.judge
        threshold = self.thresholds.get(judge.name, THRESHOLD)
        try:
            known = self._calibrations
            calibration = None if known is None else known.of(judge.name, judge.version, model)
            evaluation = read(one.form, answers, threshold, calibration)
        except Exception as error:
            evaluation = _failure_of(judge, error)
        metadata = {**evaluation.metadata, "threshold": threshold, "model": model, **notes}
        return decided(judge, evaluation, metadata=metadata, **about)

    def _keep(
        self, one: Asking, answers: Mapping[str, Answer], model: str, cut: Sequence[str]
    ) -> None:
        """Keep the answers, not the outcome: another threshold reads them again."""
        if self.verdicts is None:
            return
        own = {question.name: answers[question.name] for question in one.form.questions}
        if not any(answer.error is not None for answer in own.values()):
            self.verdicts.put(one.key, packed(one.judge, own, model, cut))
