"""Judge: does the response speak to the request?"""

from __future__ import annotations

from llmeval_sdk.judges.prompt import Example, Sections, rating, request, response, share
from llmeval_sdk.judges.yes_no import YesNoJudge


RUBRIC = """
Decide whether the response is relevant to the request. Read the request in the light of the earlier
conversation, where there is one.

yes  the response takes up what was asked and tries to serve it: an answer, a needed question back,
     or an honest statement that it cannot be answered, about this very request
no   the response is about something else, answers a different question, repeats the request, stays
     so general that it would fit any request, or says nothing

Only relevance counts: a wrong answer to the question that was asked is relevant. Side remarks do
not spoil a response whose core is relevant.
"""

EXAMPLES = (
    Example(
        {
            "request": "Which wood should I use for a cutting board?",
            "response": "Maple is a good choice; beech works as well. Oil it before the first use.",
        },
        {"rationale": "It names woods for exactly that purpose.", "rating": "yes"},
    ),
    Example(
        {
            "request": "How do I descale the kettle without vinegar?",
            "response": "Limescale is what hard water leaves behind when it is heated, and "
            "many regions have hard water.",
        },
        {
            "rationale": "It explains what limescale is; the way to remove it, which was asked "
            "for, does not come up.",
            "rating": "no",
        },
    ),
)


def _by_shared_words(sections: Sections) -> dict[str, object]:
    found = share(sections.get("request", ""), sections.get("response", ""))
    return rating(found, 0.2, "the request are in the response")


relevance_to_query = YesNoJudge(
    name="relevance_to_query",
    version="1",
    needs=("request", "response"),
    rubric=RUBRIC,
    sections=lambda record: [*request(record), *response(record)],
    examples=EXAMPLES,
    when_empty="no",
    automatic=True,
    stand_in=_by_shared_words,
)
