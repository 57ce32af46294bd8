"""Why judges do not run, in plain words, and what to do about it: one table for every reader."""

from __future__ import annotations

from typing import NamedTuple


class Reason(NamedTuple):
    """What a reason means and what helps, each as one sentence."""

    meaning: str
    advice: str


REASONS: dict[str, Reason] = {
    "missing_inputs": Reason(
        "The record lacks something that this judge needs.",
        "Annotate the missing field on the span, e.g. llmeval.annotate(request=..., response=...).",
    ),
    "no_judge_model": Reason(
        "No judge model is configured, so nothing was spent.",
        "Name one: LLMEVAL_JUDGE_MODEL=gpt-4o with OPENAI_API_KEY, or configure(llm=...).",
    ),
    "not_escalated": Reason(
        "The cheap scores looked good enough, and the control sample did not pick this request.",
        "Nothing to do; to judge more, widen the Escalation's condition or raise control_rate.",
    ),
    "not_sampled": Reason(
        "A sampling rule decided against it.",
        "Raise sample_rate in LLMEVAL_SAMPLING_RULES (or DD_LLMOBS_EVALUATOR_SAMPLING_RULES).",
    ),
    "cached": Reason(
        "The same judgement was made a moment ago; its result is attached instead.",
        "Nothing to do.",
    ),
    "over_budget": Reason(
        "The budget for judge calls or money was used up, or its books could not be read.",
        "Raise LLMEVAL_BUDGET_CALLS_PER_MINUTE or LLMEVAL_BUDGET_USD_PER_DAY, or sample less; "
        "where a Redis or a ledger is named, see `llmeval doctor --all`.",
    ),
    "circuit_open": Reason(
        "The judge model failed several times in a row, so it is left alone for a while.",
        "Check the endpoint with `llmeval doctor`; judging resumes by itself.",
    ),
    "queue_full": Reason(
        "More judgements were waiting than may wait.",
        "Sample less, raise LLMEVAL_JUDGE_CONCURRENCY, or use a faster judge model.",
    ),
    "queue_unreachable": Reason(
        "The queue of the judge fleet did not answer, and no more judgements could wait for it.",
        "Check it with `llmeval doctor --fleet`; with LLMEVAL_SPOOL set, judgements wait on disk.",
    ),
    "no_worker": Reason(
        "No background thread could be started.",
        "Check the limit of threads of the process or container.",
    ),
    "not_installed": Reason(
        "The library this judge runs on is missing or cannot be imported.",
        "For a judge model: pip install 'llmeval-inprocess[openai]'; for Ragas: pip install "
        "'llmeval-inprocess[ragas]', or run `llmeval ragas setup`.",
    ),
    "worker_lost": Reason(
        "The process that was judging ended before it answered.",
        "Look for an out-of-memory kill or a crash; what was not judged stays unjudged.",
    ),
    "timeout": Reason(
        "The judge took longer than it may.",
        "Raise LLMEVAL_JUDGE_TIMEOUT, or use a faster judge model.",
    ),
    "error": Reason(
        "The judge failed.",
        "The detail names the error; `llmeval doctor` checks the model's endpoint.",
    ),
    "shutdown": Reason(
        "The process ended first.",
        "Call llmeval.flush() before it ends, or raise LLMEVAL_SHUTDOWN_TIMEOUT.",
    ),
}

_UNKNOWN = Reason("This release does not know the reason.", "See the detail.")


def explain(reason: str) -> Reason:
    """Return the words for a reason, also for one that this release does not know."""
    return REASONS.get(reason, _UNKNOWN)
