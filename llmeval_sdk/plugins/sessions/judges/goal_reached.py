"""Judge: did the user reach what they came for?"""

from __future__ import annotations

from llmeval_sdk.judges.prompt import Example, Sections
from llmeval_sdk.plugins.agents.judges import has_failed, last_step, numbered, verdict
from llmeval_sdk.plugins.sessions.judges import SessionJudge


RUBRIC = """
Decide whether the user reached the goal with which they came into this conversation.

The goal is what they wanted to have at the end: something done, something found out, a decision
made. It may become clear only later, and may change; the last one counts. It is reached where the
conversation shows that it is: a tool call that did it and succeeded, an answer that settles the
question, the user's own words. It is not reached where the agent only says so while nothing shows
it, where the user is sent elsewhere for what the agent could have done, or leaves without it. A
goal that cannot or must not be reached counts as reached where the agent says so plainly and gives
the user what it can.

yes  the goal was reached
no   it was not; name the step where the conversation lost its way, or the last step
"""

EXAMPLES = (
    Example(
        {
            "step 1, user": "I need an invoice for March.",
            "step 2, tool call": 'tool: send_invoice arguments: {"month": 3} result: sent',
            "step 3, assistant": "I have sent it to you.",
        },
        {"rationale": "Sent in step 2.", "steps": [], "rating": "yes"},
    ),
    Example(
        {
            "step 1, user": "I need an invoice for March.",
            "step 2, assistant": "You find invoices on our site.",
            "step 3, user": "I don't. Never mind.",
        },
        {"rationale": "Sent elsewhere, and gave up.", "steps": [2], "rating": "no"},
    ),
)


def _by_the_end(sections: Sections) -> dict[str, object]:
    steps = numbered(sections)
    failed = [number for number, who, text in steps if who == "tool call" and has_failed(text)]
    asked = [text.lower() for _, who, text in steps if who == "user"]
    gave_up = bool(asked) and "never mind" in asked[-1]
    at_fault = failed or ([last_step(steps)] if gave_up else [])
    return verdict(at_fault, f"{len(failed)} calls failed")


goal_reached = SessionJudge(
    name="goal_reached",
    version="1",
    rubric=RUBRIC,
    examples=EXAMPLES,
    stand_in=_by_the_end,
)
