"""Judge: did the conversation deal with all that the user wanted?"""

from __future__ import annotations

from llmeval_sdk.judges.prompt import Example, Sections, share
from llmeval_sdk.plugins.agents.judges import last_step, numbered, verdict
from llmeval_sdk.plugins.sessions.judges import SessionJudge


RUBRIC = """
Decide whether the conversation dealt with everything that the user brought up.

List the requests and questions of the user over the whole conversation. One is dealt with where the
agent answered it, did it, or said plainly that it cannot and why. It is not where the agent passed
over it, answered something else, promised something that never came, or where the conversation
broke off before its turn. What the user withdrew, or no longer cared about, need not be answered.

yes  every request and question was dealt with
no   at least one was left open; name the step at which the user brought it up

Whether the answers are right does not matter here.
"""

EXAMPLES = (
    Example(
        {
            "step 1, user": "Where is my parcel, and can I change the address?",
            "step 2, assistant": "It is in Ghent. The address cannot be changed any more.",
        },
        {"rationale": "Both questions have an answer.", "steps": [], "rating": "yes"},
    ),
    Example(
        {
            "step 1, user": "Where is my parcel, and can I change the address?",
            "step 2, assistant": "It is in Ghent.",
            "step 3, user": "Thanks.",
        },
        {"rationale": "The change of address was passed over.", "steps": [1], "rating": "no"},
    ),
)


def _by_last_word(sections: Sections) -> dict[str, object]:
    """Object where the user has the last word and it is a question, or answers share nothing."""
    steps = numbered(sections)
    asked = "\n".join(text for _, who, text in steps if who == "user")
    said = "\n".join(text for _, who, text in steps if who != "user")
    found = share(asked, said)
    is_open = bool(steps) and steps[-1][1] == "user" and "?" in steps[-1][2]
    at_fault = [last_step(steps)] if is_open or found < 0.3 else []
    return verdict(at_fault, f"{found:.0%} of the words of the user come back, 30% needed")


conversation_completeness = SessionJudge(
    name="conversation_completeness",
    version="1",
    rubric=RUBRIC,
    examples=EXAMPLES,
    stand_in=_by_last_word,
)
