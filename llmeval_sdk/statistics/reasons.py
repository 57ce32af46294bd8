"""Why judges do not run and why records are lost, and the funnel of who was judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args


NotRunReason = Literal[
    "missing_inputs",
    "no_judge_model",
    "busy",
    "not_escalated",
    "not_sampled",
    "cached",
    "no_price",
    "over_budget",
    "no_ledger",
    "circuit_open",
    "queue_full",
    "queue_unreachable",
    "no_worker",
    "not_installed",
    "worker_lost",
    "timeout",
    "error",
    "shutdown",
]
Step = Literal["eligible", "selected", "budgeted", "run", "scored"]
STEPS: tuple[Step, ...] = ("eligible", "selected", "budgeted", "run", "scored")
"""The steps of a `Funnel`, from cheap to paid."""


class Reason(NamedTuple):
    """Why a judge did not run or gave no result, as one row of the table."""

    meaning: str
    """What the reason means, as one sentence."""
    advice: str
    """What helps, as one sentence."""
    misses: Step | None
    """The first step of the funnel that the record misses; ``None`` says where a score is from."""
    is_loud: bool = False
    """Whether a person should do something about it, so that it gets a line in the log."""


REASONS: dict[str, Reason] = {
    "missing_inputs": Reason(
        "The record lacks something that this judge needs.",
        "Annotate the missing field on the span, e.g. llmeval.annotate(request=..., response=...).",
        misses="eligible",
    ),
    "no_judge_model": Reason(
        "No judge model is configured, so nothing was spent.",
        "Name one: LLMEVAL_JUDGE_MODEL=gpt-4o with OPENAI_API_KEY, or configure(llm=...).",
        misses="eligible",
        is_loud=True,
    ),
    "busy": Reason(
        "More came than could be worked off, so the scores of a random share of requests give way.",
        "Score and judge in `llmeval agent` (LLMEVAL_SPOOL, LLMEVAL_WORKER=off), or raise "
        "LLMEVAL_BACKGROUND_SHARE. Means are weighted and still hold.",
        misses="selected",
        is_loud=True,
    ),
    "not_escalated": Reason(
        "The cheap scores looked good enough, and the control sample did not pick this request.",
        "Nothing to do; to judge more, widen the Escalation's condition or raise control_rate.",
        misses="selected",
    ),
    "not_sampled": Reason(
        "A sampling rule decided against it.",
        "Raise sample_rate in LLMEVAL_SAMPLING_RULES (or DD_LLMOBS_EVALUATOR_SAMPLING_RULES).",
        misses="selected",
    ),
    "cached": Reason(
        "The same judgement was made a moment ago; its result is attached instead.",
        "Nothing to do.",
        misses=None,
    ),
    "no_price": Reason(
        "The price of the judge model is not known, and a limit in dollars is set.",
        "Say the price in USD per million tokens: LLMEVAL_PRICES='name=in,out', and 'name=0,0' "
        "where it costs nothing.",
        misses="budgeted",
        is_loud=True,
    ),
    "over_budget": Reason(
        "The budget for judge calls or money was used up, or its books could not be read.",
        "Raise LLMEVAL_BUDGET_CALLS_PER_MINUTE or LLMEVAL_BUDGET_USD_PER_DAY, or sample less; "
        "where a Redis or a ledger is named, see `llmeval doctor --all`.",
        misses="budgeted",
        is_loud=True,
    ),
    "no_ledger": Reason(
        "The ledger that keeps the books of the budget could not be used, so nothing was spent.",
        "The detail names the file or the error: give the folder of LLMEVAL_STORE back to this "
        "user, or name another, on a disk that answers.",
        misses="budgeted",
        is_loud=True,
    ),
    "circuit_open": Reason(
        "The judge model failed several times in a row, so it is left alone for a while.",
        "Check the endpoint with `llmeval doctor`; judging resumes by itself.",
        misses="run",
        is_loud=True,
    ),
    "queue_full": Reason(
        "More judgements were waiting than may wait.",
        "Sample less, raise LLMEVAL_JUDGE_CONCURRENCY, or use a faster judge model.",
        misses="run",
    ),
    "queue_unreachable": Reason(
        "The queue of the judge fleet did not answer, and no more judgements could wait for it.",
        "Check it with `llmeval doctor --fleet`; with LLMEVAL_SPOOL set, judgements wait on disk.",
        misses="run",
        is_loud=True,
    ),
    "no_worker": Reason(
        "No background thread could be started.",
        "Check the limit of threads of the process or container.",
        misses="run",
        is_loud=True,
    ),
    "not_installed": Reason(
        "The library this judge runs on is missing or cannot be imported.",
        "For a judge model: pip install 'llmeval-inprocess[openai]'; for Ragas: pip install "
        "'llmeval-inprocess[ragas]', or run `llmeval ragas setup`.",
        misses="run",
        is_loud=True,
    ),
    "worker_lost": Reason(
        "The process that was judging ended before it answered.",
        "Look for an out-of-memory kill or a crash; what was not judged stays unjudged.",
        misses="scored",
        is_loud=True,
    ),
    "timeout": Reason(
        "The judge took longer than it may.",
        "Raise LLMEVAL_JUDGE_TIMEOUT, or use a faster judge model.",
        misses="scored",
    ),
    "error": Reason(
        "The judge failed.",
        "The detail names the error; `llmeval doctor` checks the model's endpoint.",
        misses="scored",
    ),
    "shutdown": Reason(
        "The process ended first.",
        "Call llmeval.flush() before it ends, or raise LLMEVAL_SHUTDOWN_TIMEOUT.",
        misses="run",
    ),
}
NOT_RUN_REASONS: tuple[NotRunReason, ...] = get_args(NotRunReason)
"""All reasons why a judge did not run or gave no result, in the order in which they are decided."""
HEURISTICS = "heuristics"
"""What stands in the place of a judge where the free scores of a record gave way: it has no funnel.
"""
NOT_SELECTED = frozenset(name for name, row in REASONS.items() if row.misses == "selected")
"""The reasons for which a judge was never meant to see a record."""
FAILED = frozenset(name for name, row in REASONS.items() if row.misses == "scored")
"""The reasons of judgements that began and gave nothing."""

LOSSES: dict[str, Reason] = {
    "queue_full": Reason(
        "More came than this process works off.",
        "Deliver by `llmeval agent`, outside the app (LLMEVAL_SPOOL, LLMEVAL_WORKER=off), raise "
        "LLMEVAL_BACKGROUND_SHARE up to the cores that are idle, or lower "
        "LLMEVAL_TRACE_SAMPLE_RATE. Neither memory nor a longer queue helps.",
        misses=None,
    ),
    "spool_full": Reason(
        "More came than the spool holds until `llmeval agent` takes it.",
        "Let the agent run all the time and have a core, or lower LLMEVAL_TRACE_SAMPLE_RATE.",
        misses=None,
    ),
    "exporter_full": Reason(
        "The far end was away for too long, or takes records more slowly than they come.",
        "See whether it can be reached, and leave exporters out that nobody reads "
        "(LLMEVAL_EXPORTERS).",
        misses=None,
    ),
    "disk_full": Reason(
        "The disk had no room for the store, for ten minutes or until the process ended.",
        "Free some, or lower LLMEVAL_STORE_MAX_BYTES to what the disk has.",
        misses=None,
    ),
    "store_locked": Reason(
        "Another process held the store, for ten minutes or until this one ended.",
        "End it, or give the app a store of its own (LLMEVAL_STORE).",
        misses=None,
    ),
    "store_read_only": Reason(
        "The store could not be written.",
        "Give its folder back to the app's user, or name another (LLMEVAL_STORE).",
        misses=None,
    ),
    "no_worker": Reason(
        "No background thread could be started.",
        "Raise the limit of threads of the process or container.",
        misses=None,
    ),
    "shutdown": Reason(
        "A process ended before they were sent.",
        "Raise LLMEVAL_SHUTDOWN_TIMEOUT, or call llmeval.flush(timeout=None) before the end.",
        misses=None,
    ),
    "killed": Reason(
        "A process was killed while the spool had no room for them.",
        "Find out what kills it: mostly the limit of memory.",
        misses=None,
    ),
    "unanswered": Reason(
        "They were sent and no answer came, so they may have arrived.",
        "See whether the far end is overloaded.",
        misses=None,
    ),
    "unauthorized": Reason(
        "The far end refused the key.",
        "Set the key again; `llmeval doctor --all` says which one is used.",
        misses=None,
    ),
}
"""Why records are lost: what each reason means, and the one setting or step that helps."""
TRACES = "traces"
"""Stands among the exporters, in losses, for how many traces each has lost the first span of."""

_OF_FAR_END = Reason(
    "The far end, or its exporter, said so.",
    "See the app's log for its words, and `llmeval doctor --all` for where they go.",
    misses=None,
)
_WRONG_ADDRESS = Reason(
    "What answers at this address takes no records.",
    "Correct the address, which `llmeval doctor --all` shows.",
    misses=None,
)
_AWAY = Reason(
    "The far end was away, or overloaded, for ten minutes or until the process ended.",
    "See whether it runs and can be reached from here; `llmeval doctor --all` shows its address.",
    misses=None,
)
_FAR_ENDS: dict[str, Reason] = {
    **dict.fromkeys(("http_401", "http_403"), LOSSES["unauthorized"]),
    **dict.fromkeys(("http_404", "http_405", "not_a_backend"), _WRONG_ADDRESS),
    **dict.fromkeys(("unreachable", "timeout", "connection_lost", "http_429"), _AWAY),
}
_UNKNOWN = Reason("This release does not know the reason.", "See the detail.", "run")


def explain(reason: str) -> Reason:
    """Return the row of a reason, also of one that this release does not know."""
    return REASONS.get(reason, _UNKNOWN)


def explain_loss(reason: str) -> Reason:
    """Return why records are lost for a reason, also for what a far end or an exporter said."""
    is_outage, is_redirect = (reason.startswith(f"http_{digit}") for digit in (5, 3))
    by_status = _AWAY if is_outage else _WRONG_ADDRESS if is_redirect else _OF_FAR_END
    return LOSSES.get(reason) or _FAR_ENDS.get(reason, by_status)


def step_of(reason: str) -> Step | None:
    """Return the first step that a record with this reason misses; ``None`` for ``cached``."""
    return explain(reason).misses


@dataclass(frozen=True, slots=True)
class Funnel:
    """How many records were left after each step, from cheap to paid; each number is in the next.

    ``scored`` counts judgements with a verdict, ``run`` also those that failed, ``budgeted`` those
    that the budget let through, ``selected`` those that escalation and sampling let through and
    ``eligible`` all records that the judge could have judged.
    """

    eligible: int = 0
    selected: int = 0
    budgeted: int = 0
    run: int = 0
    scored: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    """How often it did not run, or gave nothing, by reason; also before `eligible`."""

    def __str__(self) -> str:
        return " > ".join(f"{getattr(self, step):,}" for step in STEPS)


def funnel(scored: int, reasons: Mapping[str, int]) -> Funnel:
    """Make the funnel of one judge: what it scored, and how often it did not for what reason."""
    missed: Counter[Step | None] = Counter()
    for reason, times in reasons.items():
        missed[step_of(reason)] += times
    run = scored + missed["scored"]
    budgeted = run + missed["run"]
    selected = budgeted + missed["budgeted"]
    return Funnel(selected + missed["selected"], selected, budgeted, run, scored, dict(reasons))
