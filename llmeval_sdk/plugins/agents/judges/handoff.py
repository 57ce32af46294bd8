"""Judge: did the agent hand the conversation over rightly?"""

from __future__ import annotations

from llmeval_sdk.judges.prompt import Example, Sections
from llmeval_sdk.model import Record
from llmeval_sdk.model.runs import hands_over, run_of
from llmeval_sdk.plugins.agents.judges import RunJudge, called, numbered, verdict


RUBRIC = """
An agent handed the conversation over, to another agent or to a person: a tool call such as
transfer_to_billing, escalate or handoff. Decide whether each handoff was right.

A handoff is right where the user asked for it, the instructions demand it, or the agent could not
do what was asked and the other can; where it goes to the one that fits; and where what the other
needs to know (who the user is, what they want, what was done already) goes with it or stands in the
conversation that goes with it. It is wrong where the agent could have done it itself, comes after
the agent has already begun something that it leaves half done without a word, or sends the
conversation back to where it came from.

yes  every handoff was needed, went to the right place and left nobody without what they need
no   a handoff was needless, late, to the wrong place or without what was needed; name its step
"""

EXAMPLES = (
    Example(
        {
            "step 1, user": "I was charged twice, please fix it.",
            "step 2, tool call": "tool: transfer_to_billing arguments: "
            '{"summary": "charged twice"} result: ok',
        },
        {"rationale": "Billing is who can fix it, and knows why.", "steps": [], "rating": "yes"},
    ),
    Example(
        {
            "step 1, user": "What time is it?",
            "step 2, tool call": "tool: transfer_to_human arguments: {} result: ok",
        },
        {"rationale": "Nobody is needed for that.", "steps": [2], "rating": "no"},
    ),
)


def _missing(record: Record) -> str | None:
    there = any(hands_over(call.step) for call in run_of(record).calls)
    return None if there else "handoff in steps (a tool such as transfer_to_…)"


def _by_order(sections: Sections) -> dict[str, object]:
    """Object to a handoff with which the conversation goes back and forth."""
    seen: set[str] = set()
    again = []
    for number, who, text in numbered(sections):
        call = called(text) if who == "tool call" else None
        if call is not None and "transfer" in call and call in seen:
            again.append(number)
        elif call is not None:
            seen.add(call)
    return verdict(again, f"{len(again)} handoffs go where the conversation has been")


handoff = RunJudge(
    name="handoff",
    version="1",
    rubric=RUBRIC,
    examples=EXAMPLES,
    missing=_missing,
    stand_in=_by_order,
)
