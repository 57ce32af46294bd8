"""Judge: did the agent keep to its plan?"""

from __future__ import annotations

from collections.abc import Sequence

from llmeval_sdk.judges.prompt import Example, Section, Sections, share
from llmeval_sdk.model import Record
from llmeval_sdk.model.chat import as_text
from llmeval_sdk.model.runs import run_of
from llmeval_sdk.plugins.agents.judges import (
    RunJudge,
    last_step,
    numbered,
    tools,
    verdict,
)


RUBRIC = """
Decide whether the agent kept to its plan. The plan is section "plan", where there is one; else what
the instructions (system) tell it to do in which order, and what it said itself that it would do.

A step keeps to the plan where it is part of it, or is needed for a part of it. Leaving the plan is
right where a result shows that it cannot work, or the user wants something else, and the agent
reacts to that. It is wrong where a part is skipped, done in an order that the plan rules out, or
replaced for no reason that shows, and where the agent says that it did a part which it did not do.

yes  every part of the plan was done, or given up for a reason that shows
no   the agent left its plan without such a reason; name the step where it did

Whether the plan was a good one does not matter here.
"""

EXAMPLES = (
    Example(
        {
            "step 1, system": "Check who the customer is before you change an order.",
            "step 2, user": "I am Ana, customer 7. Cancel A17.",
            "step 3, tool call": 'tool: find_customer arguments: {"id": 7} result: Ana',
            "step 4, tool call": 'tool: cancel_order arguments: {"id": "A17"} result: ok',
        },
        {"rationale": "The check in step 3 precedes the change.", "steps": [], "rating": "yes"},
    ),
    Example(
        {
            "step 1, system": "Check who the customer is before you change an order.",
            "step 2, user": "Cancel A17.",
            "step 3, tool call": 'tool: cancel_order arguments: {"id": "A17"} result: ok',
        },
        {"rationale": "Cancelled without the check.", "steps": [3], "rating": "no"},
    ),
)


def _beside(record: Record) -> Sequence[Section]:
    plan = record.attributes.get("plan")
    return [*([] if plan is None else [Section("plan", as_text(plan))]), *tools(record)]


def _missing(record: Record) -> str | None:
    if record.attributes.get("plan") is not None:
        return None
    steps = run_of(record).steps
    last_call = max((n for n, step in enumerate(steps) if step.role == "tool"), default=0)
    stated = any(step.role in ("system", "assistant") for step in steps[:last_call])
    return None if stated else "plan (attributes['plan'], instructions, or said before the calls)"


def _by_shared_words(sections: Sections) -> dict[str, object]:
    steps = numbered(sections)
    plan = sections.get("plan") or "\n".join(text for _, who, text in steps if who == "system")
    found = share(plan, "\n".join(text for _, who, text in steps if who == "tool call"))
    at_fault = [] if not plan or found >= 0.2 else [last_step(steps)]
    return verdict(at_fault, f"{found:.0%} of the words of the plan are in the calls, 20% needed")


plan_adherence = RunJudge(
    name="plan_adherence",
    version="1",
    rubric=RUBRIC,
    examples=EXAMPLES,
    beside=_beside,
    missing=_missing,
    stand_in=_by_shared_words,
)
