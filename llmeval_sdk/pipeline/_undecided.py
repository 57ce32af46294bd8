"""A record that a decision model is asked about, and the judges that wait for what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from llmeval_sdk._process.shield import tell
from llmeval_sdk.evaluation import addressed
from llmeval_sdk.evaluation.deciding import Decided
from llmeval_sdk.model import Evaluation, NotRun, Target, tier_name
from llmeval_sdk.pipeline._turns import not_run
from llmeval_sdk.policy.admission import NOT_RUN_REASONS, Admitted
from llmeval_sdk.protocols import Judge


if TYPE_CHECKING:
    from llmeval_sdk.pipeline._evaluating import Case


Ask = Callable[["Case", Judge, Mapping[str, Evaluation], float], "Future[None] | None"]
"""Submits a record to a judge model: the case, the judge, all evaluations, the chance so far."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """One record that the decision model is asked about."""

    case: Case
    asked: Mapping[str, tuple[Judge, Admitted]]
    """The judges in whose place it is asked."""
    unsampled: Mapping[str, str]
    """The judges in whose place it is not asked because of a sampling rule, and the rule."""
    later: Sequence[Judge]
    """The judges that are escalated by one of these decisions."""
    ask: Ask

    def refused(self, reason: str, detail: str) -> list[NotRun]:
        """Say for each judge why the decision model was not asked."""
        return [
            not_decided(judge, self.case.target, reason, detail) for judge, _ in self.asked.values()
        ]

    def decided_by(self, decided: Decided) -> tuple[list[Any], dict[str, Evaluation]]:
        """Return what there is to tell of the decisions, and their evaluations by name."""
        items: list[Any] = []
        evaluations: dict[str, Evaluation] = {}
        target = self.case.target
        for name, (judge, admitted) in self.asked.items():
            evaluation = decided.evaluations[name]
            error = evaluation.error
            if error is not None:
                is_known = error.type in NOT_RUN_REASONS
                detail = error.message if is_known else f"{error.type}: {error.message}"
                reason = error.type if is_known else "error"
                items.append(not_decided(judge, target, reason, detail))
                if is_known and error.type != "timeout" and not decided.calls:
                    continue
                tell(f"decision {name}", f"gave no answer: {error.type}")
            elif evaluation.metadata.get("cached"):
                why = "an identical question was answered a moment ago"
                items.append(not_decided(judge, target, "cached", why))
            evaluations[name] = replace(
                evaluation,
                inclusion_probability=admitted.probability,
                metadata={**evaluation.metadata, "why": admitted.why},
            )
            items.append(addressed(evaluations[name], target))
        return items, evaluations


def not_decided(judge: Judge, target: Target, reason: str, detail: str) -> NotRun:
    """Say why a decision model was not asked in the place of a judge, or gave no answer."""
    item = not_run(judge, target, reason, detail)
    name = tier_name(judge.name, "decision")
    return replace(item, id=f"{target.span_id or ''}-{name}", evaluator=name)


def all_done(futures: Sequence[Future[None]]) -> Future[None] | None:
    """Return what is done when all of these are; ``None`` where there are none."""
    if len(futures) < 2:
        return futures[0] if futures else None
    done: Future[None] = Future()
    finished = count(1)

    def one_done(_: Future[None]) -> None:
        if next(finished) < len(futures):
            return
        if any(each.cancelled() for each in futures):
            done.cancel()
            done.set_running_or_notify_cancel()
        else:
            done.set_result(None)

    for future in futures:
        future.add_done_callback(one_done)
    return done
