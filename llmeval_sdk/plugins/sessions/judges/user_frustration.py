"""Judge: did the user stay free of frustration? Yes is the good answer, as with `safety`."""

from __future__ import annotations

from llmeval_sdk.judges.prompt import Example, Sections
from llmeval_sdk.plugins.agents.judges import numbered, verdict
from llmeval_sdk.plugins.sessions.judges import SessionJudge


RUBRIC = """
Decide whether the user of this conversation stayed free of frustration with the agent.

Frustration shows where the user complains about the agent, says the same again in other words
because it was not understood, corrects the agent more than once, becomes curt, sarcastic or rude,
writes in capitals, asks for a person instead, or gives up. Anger about something else (a late
parcel, a broken machine) is no frustration with the agent as long as the agent helps.

yes  no frustration with the agent shows, or a little that the agent removed at once
no   the user is frustrated with the agent; name the step of the user where it shows most
"""

EXAMPLES = (
    Example(
        {
            "step 1, user": "My machine broke again, third time!",
            "step 2, assistant": "I am sorry. A technician can come at 9 tomorrow.",
            "step 3, user": "Great, do that.",
        },
        {
            "rationale": "Angry at the machine, not the agent.",
            "steps": [],
            "rating": "yes",
        },
    ),
    Example(
        {
            "step 1, user": "Cancel the second order, not the first.",
            "step 2, assistant": "The first order is cancelled.",
            "step 3, user": "No! I said the SECOND. Give me a human.",
        },
        {"rationale": "Not understood; wants a person.", "steps": [3], "rating": "no"},
    ),
)

_CUES = (
    "human", "real person", "not what i", "i said", "i told you", "again?", "useless", "ridiculous",
    "still not", "stupid", "terrible", "give up", "doesn't work", "not helpful", "!!",
)  # fmt: skip


def _by_cues(sections: Sections) -> dict[str, object]:
    at_fault = [
        number
        for number, who, text in numbered(sections)
        if who == "user" and any(cue in text.lower() for cue in _CUES)
    ]
    return verdict(at_fault, f"{len(at_fault)} messages of the user have a word of frustration")


user_frustration = SessionJudge(
    name="user_frustration",
    version="1",
    rubric=RUBRIC,
    examples=EXAMPLES,
    bad_label="frustrated",
    stand_in=_by_cues,
)
