"""Judge: did the agent keep in mind what the user had told it?"""

from __future__ import annotations

import re

from llmeval_sdk.judges.prompt import Example, Sections, words
from llmeval_sdk.plugins.agents.judges import numbered, verdict
from llmeval_sdk.plugins.sessions.judges import SessionJudge


RUBRIC = """
Decide whether the agent kept in mind what the user had told it in this conversation: names,
numbers, dates, preferences, what was tried already, what was agreed.

It forgot where it asks for something that the user has said, uses another value than the user gave,
proposes what the user has ruled out or already tried, or goes against what was agreed, and the user
has not changed their mind since. Asking once more before something that cannot be undone is not
forgetting, and neither is asking for a part that was not given.

yes  nothing that the user had told it was forgotten
no   something was forgotten; name the step of the agent where it shows
"""

EXAMPLES = (
    Example(
        {
            "step 1, user": "I am vegetarian. Where can I eat in Ghent?",
            "step 2, assistant": "Try De Appelier, all dishes are vegetarian.",
        },
        {"rationale": "The preference is respected.", "steps": [], "rating": "yes"},
    ),
    Example(
        {
            "step 1, user": "My order is A17. It never came.",
            "step 2, assistant": "I am sorry. What is your order number?",
        },
        {"rationale": "The number stands in step 1.", "steps": [2], "rating": "no"},
    ),
)

_ASKS = re.compile(
    r"(?:what is|what's|tell me|give me|may i have) your ([\w ]{3,40})", re.IGNORECASE
)


def _by_questions(sections: Sections) -> dict[str, object]:
    """Object where the agent asks for something whose words the user has used."""
    known: set[str] = set()
    at_fault = []
    for number, who, text in numbered(sections):
        if who == "user":
            known |= words(text)
        elif who == "assistant":
            asked = (words(match[1]) for match in _ASKS.finditer(text))
            if any(wanted & known for wanted in asked):
                at_fault.append(number)
    return verdict(at_fault, f"{len(at_fault)} times the agent asks for what the user has said")


knowledge_retention = SessionJudge(
    name="knowledge_retention",
    version="1",
    rubric=RUBRIC,
    examples=EXAMPLES,
    stand_in=_by_questions,
)
