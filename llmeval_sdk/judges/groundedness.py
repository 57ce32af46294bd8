"""Judge: does the retrieved context support what the response says?"""

from __future__ import annotations

from llmeval_sdk.judges.prompt import (
    Example,
    Sections,
    chunks_of,
    context,
    rating,
    request,
    response,
    share,
)
from llmeval_sdk.judges.yes_no import YesNoJudge
from llmeval_sdk.model.fields import EVIDENCE
from llmeval_sdk.model.records import evidence_of


RUBRIC = """
Decide whether the chunks support the response.

Split the response into its claims. A claim is supported where a chunk states it or it follows
from what the chunks state without outside knowledge. A paraphrase, a rounded figure or a converted
unit is support; a different number, name, date, cause or degree of certainty is not, and neither is
a claim that is true but stands in no chunk. Greetings, offers of help, and statements that the
documents do not answer the question are no claims.

yes  all claims, or all but details that nobody would act on, are supported
no   a claim that matters is unsupported or contradicted; name it in the rationale

Whether the response is useful, complete or well written does not matter here.
"""

EXAMPLES = (
    Example(
        {
            "request": "When does the ferry to the island leave on Sundays?",
            "chunk 1": "Sunday departures from the east pier: 08:40 and 17:15.",
            "response": "On Sundays there are two ferries, in the morning at 8:40 and in the "
            "afternoon at a quarter past five.",
        },
        {
            "rationale": "Both times stand in chunk 1, one of them in other words.",
            "rating": "yes",
        },
    ),
    Example(
        {
            "request": "Is the trail open in winter?",
            "chunk 1": "The upper trail is closed from November to April because of rockfall.",
            "response": "No, it is closed from November to April because of avalanches.",
        },
        {
            "rationale": "The closure is supported; its cause is not: chunk 1 says rockfall.",
            "rating": "no",
        },
    ),
)


def _by_shared_words(sections: Sections) -> dict[str, object]:
    found = share(sections.get("response", ""), chunks_of(sections))
    return rating(found, 0.6, "the response are in the chunks")


groundedness = YesNoJudge(
    name="groundedness",
    version="1",
    needs=("request", "response", EVIDENCE),
    rubric=RUBRIC,
    sections=lambda record: [
        *request(record),
        *context(evidence_of(record)),
        *response(record),
    ],
    examples=EXAMPLES,
    when_empty="no",
    automatic=True,
    share_of="answers",
    predictor="groundedness_risk",
    stand_in=_by_shared_words,
)
