"""Asks a decision model what judges would ask a judge model, in one request for each record."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

from llmeval_sdk._needs import lacking
from llmeval_sdk._process.shield import shield
from llmeval_sdk._process.threads import within
from llmeval_sdk.errors import ConfigurationError, JudgeError
from llmeval_sdk.evaluation._account import Spending
from llmeval_sdk.evaluation._outcomes import decided, failure_of, packed, read, unpacked
from llmeval_sdk.evaluation._running import failed, not_applicable
from llmeval_sdk.evaluation._turnstile import Turnstile
from llmeval_sdk.evaluation.calibrations import Calibrations
from llmeval_sdk.evaluation.decision_budget import BUDGET
from llmeval_sdk.evaluation.inquiry import (
    Asking,
    Inquiry,
    ModelReply,
    Prepared,
    answered,
    checked,
    digest_of,
    left_out,
    shares,
)
from llmeval_sdk.evaluation.verdicts import EarlierVerdict, VerdictKey, Verdicts
from llmeval_sdk.judges import BaseJudge
from llmeval_sdk.judges.typed import Typed, TypedForm, typed_form_of
from llmeval_sdk.model import (
    Answer,
    Decision,
    Evaluation,
    Failure,
    ModelCall,
    Record,
)
from llmeval_sdk.policy.keeper import BudgetKeeper
from llmeval_sdk.protocols import DecisionModel, Judge
from llmeval_sdk.tracing import disabled


THRESHOLD = 0.5
"""The probability from which on an outcome is good, where a judge has no threshold of its own."""
ACCOUNT = "decisions"
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
    """Decides records with one model, inside a budget. Used by one event loop.

    Args:
        model: Which model.
        keeper: Of the budget of decisions.
        concurrency: Requests at a time, at most.
        timeout: Seconds that a record may take.
        thresholds: By the name of the judge, the probability from which on its outcome is good.
        prices: Own prices by model, in USD per million input and output tokens.
        patience: Seconds that a request waits for a model that is down; see `Turnstile`.
        verdicts: Where answers of earlier records are found, and those of this run are kept.
        calibrations: What corrects a judge's probabilities, by judge.

    Raises:
        ConfigurationError: A threshold is no number from 0 to 1.
    """

    def __init__(
        self,
        model: DecisionModel,
        keeper: BudgetKeeper,
        *,
        concurrency: int = BUDGET.concurrency,
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
        self._turnstile = Turnstile(
            keeper, concurrency=concurrency, prices=prices, patience=patience
        )
        self._timeout = timeout
        self.thresholds = checked_thresholds(thresholds)
        self.verdicts = verdicts
        self._calibrations = calibrations
        self._typed: dict[int, tuple[Judge, Typed | None]] = {}

    async def decide(self, record: Record, judges: Sequence[Judge]) -> Decided:
        """Ask about a record what these judges ask, in one request. Never raises.

        A judge whose inputs are missing, whose outcome needs no model, or whose question was
        answered before, asks nothing.
        """
        prepared = self.prepared(record, judges)
        return self.read(prepared, await self.ask(prepared))

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
        return Prepared(record, judges, inquiry, asking, evaluations)

    async def ask(self, prepared: Prepared) -> ModelReply | None:
        """Ask the model within budget and time; ``None`` where nothing has to be asked."""
        if not prepared.asking:
            return None
        began = perf_counter()
        decision, calls = await self._asked(prepared.inquiry)
        return ModelReply(decision, calls, perf_counter() - began)

    def read(self, prepared: Prepared, reply: ModelReply | None) -> Decided:
        """Return the outcomes of all judges."""
        evaluations = prepared.evaluations
        if reply is not None:
            evaluations = {**evaluations, **self._read(prepared, reply)}
        return Decided(
            {judge.name: evaluations[judge.name] for judge in prepared.judges},
            () if reply is None else reply.calls,
        )

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
            key = self._key(form)
            kept = EarlierVerdict() if self.verdicts is None else self.verdicts.get(key)
        except (Exception, SystemExit) as error:  # code of the app's own, and a cache's file
            return decided(judge, failure_of(judge, error))
        if kept.verdict is None:
            return Asking(judge, form, key, distrusted=kept.is_distrusted)
        known = kept.verdict.metadata
        notes = {"cached": True, **({"cut": known["cut"]} if "cut" in known else {})}
        if parts := left_out(record.request):
            notes["left_out"] = parts
        answers, model = unpacked(kept.verdict), str(known.get("model"))
        return self._evaluation(Asking(judge, form, key), answers, model, notes)

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

    def _key(self, form: TypedForm) -> VerdictKey:
        address = getattr(self.model, "base_url", None)
        path = getattr(self.model, "path", "")
        where = f"#{id(self.model)}" if address is None else f"@{address}{path}"
        return VerdictKey(digest_of(f"{self.model.model}{where}", form), address is not None)

    async def _asked(self, inquiry: Inquiry) -> tuple[Decision | Failure, Sequence[ModelCall]]:
        """Ask the model within budget and time."""
        account = Spending(self.model, self._turnstile, ACCOUNT)
        until = asyncio.get_running_loop().time() + _PART_FOR_ANSWERS * self._timeout
        try:
            with disabled():  # a model of the app's own is no part of its trace
                decision = await within(
                    self._timeout,
                    account.paid(
                        "decide",
                        inquiry.most(),
                        lambda: answered(self.model, inquiry, self._turnstile, until),
                    ),
                )
        except (TimeoutError, asyncio.TimeoutError):
            return Failure("timeout", f"no answer after {self._timeout:g} s"), account.calls
        except JudgeError as error:
            return Failure(error.type, str(error)), account.calls
        except (Exception, SystemExit) as error:
            return Failure(type(error).__name__, str(error)), account.calls
        return replace(decision, usage=account.usage), account.calls

    def _read(self, prepared: Prepared, reply: ModelReply) -> dict[str, Evaluation]:
        decision, asking, inquiry = reply.decision, prepared.asking, prepared.inquiry
        if isinstance(decision, Failure):
            type_, message = decision.type, decision.message
            return {
                judge.name: decided(judge, failed(judge, type_, message), duration=reply.seconds)
                for judge in (one.judge for one in asking)
            }
        answers = checked(inquiry.questions, decision.answers)
        absent = left_out(prepared.record.request)
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
            if one.distrusted:
                notes["distrusted_cache"] = True
            evaluations[one.judge.name] = self._evaluation(
                one, answers, model, notes, usage=usage, duration=reply.seconds
            )
            with shield("kept decisions", calls_out=True):
                self._keep(one, answers, model, cut)
        return evaluations

    def _evaluation(
        self,
        one: Asking,
        answers: Mapping[str, Answer],
        model: str,
        notes: Mapping[str, Any],
        **about: Any,
    ) -> Evaluation:
        """Return the outcome of a judge with notes for its metadata, and what else is known."""
        judge = one.judge
        threshold = self.thresholds.get(judge.name, THRESHOLD)
        try:
            known = self._calibrations
            calibration = None if known is None else known.of(judge.name, judge.version, model)
            evaluation = read(one.form, answers, threshold, calibration)
        except Exception as error:
            evaluation = failure_of(judge, error)
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
