"""A store in which everything has happened that a dashboard shows, written by the real writer."""

import time

from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.limiter import BudgetLimiter
from llmeval_sdk.model import Failure, Usage
from llmeval_sdk.store.losses import Process
from llmeval_sdk.store.state import HostLedger, ledger_path


SECOND = 1_000_000_000
SPENT = 0.75
"""US dollars that judges have spent today, by the books beside the store."""


def fill(store, count=40, *, name="answer"):
    """Write requests with a call each, free scores, verdicts on half of them, and refusals."""
    begin = time.time_ns() - 60 * SECOND
    spans, evaluations, not_run = [], [], []
    for number in range(count):
        root = store.span(
            name, start_ns=begin, end_ns=begin + (number + 1) * SECOND // 100,
            error=Failure("TimeoutError", "") if number % 10 == 0 else None,
        )  # fmt: skip
        call = store.span(
            "chat", kind="llm", parent=root, trace=root.trace_id, start_ns=begin,
            end_ns=begin + SECOND, model_name="gpt-4o", usage=Usage(90, 10, 100, 0.01),
            metrics={"time_to_first_token": 0.2},
        )  # fmt: skip
        unpriced = store.span(
            "chat", kind="llm", parent=root, trace=root.trace_id, start_ns=begin,
            end_ns=begin + SECOND, model_name="local", usage=Usage(9, 1, 10, None),
        )  # fmt: skip
        spans += [root, call, unpriced]
        evaluations.append(store.score(root, "groundedness_risk", number / count))
        if number % 2:
            evaluations.append(
                store.score(
                    root, "groundedness", "yes" if number % 3 else "no", evaluator_kind="judge",
                    usage=Usage(90, 10, 100, 0.0025), inclusion_probability=0.5,
                )
            )  # fmt: skip
        else:
            reason = "over_budget" if number % 4 else "not_escalated"
            not_run.append(store.refuse(root, "groundedness", reason))
    store.write(spans=spans, evaluations=evaluations, not_run=not_run)


def lose(store):
    """Note that a process could not deliver some records."""
    store.writer.note_losses(Process(1, 1), {"otlp": {"refused": 3}})


def spend(store):
    """Spend some of the budget of this host, as judges do."""
    limiter = BudgetLimiter(Budget(), HostLedger(ledger_path(store.path)))
    reservation = limiter.reserve("groundedness", tokens=100, usd=1.0)
    limiter.settle(reservation, usd=SPENT)
    limiter.close()


def scraped(site):
    """Return the samples of ``/metrics`` by name and labels."""
    page = site.get("/metrics")
    assert page.status == 200
    lines = [line for line in page.text.splitlines() if line and line[0] != "#"]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
