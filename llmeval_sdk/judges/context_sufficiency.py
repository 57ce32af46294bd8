"""Judge: could the expected answer have been produced from what was retrieved?"""

from __future__ import annotations

from typing import Any

from llmeval_sdk.judges.prompt import (
    Example,
    Sections,
    chunks_of,
    context,
    expected,
    rating,
    request,
    share,
    words,
)
from llmeval_sdk.judges.yes_no import YesNoJudge
from llmeval_sdk.model.fields import CHUNK_TEXT


RUBRIC = """
Decide whether the chunks suffice to produce what is expected (section "expected response" or
"expected facts") as an answer to the request.

Go through what is expected, statement by statement, and look for each in the chunks. It may be
spread over several chunks and put in other words. General knowledge that any reader has may fill
small gaps; facts about the subject may not.

yes  everything that matters in what is expected can be taken from the chunks
no   something that matters cannot; name in the rationale exactly what is missing

What is expected counts as right. If the chunks contradict it, they do not suffice.
"""

EXAMPLES = (
    Example(
        {
            "request": "Who pays for the repair of the lift?",
            "chunk 1": "The landlord keeps stairs, lift and heating in working order.",
            "chunk 2": "Costs of such upkeep are borne by the party that owes it.",
            "expected response": "The landlord pays.",
        },
        {
            "rationale": "Chunk 1 puts the upkeep on the landlord, chunk 2 its costs.",
            "rating": "yes",
        },
    ),
    Example(
        {
            "request": "How long is the guarantee on the frame, and does it cover rust?",
            "chunk 1": "We guarantee every frame for ten years.",
            "expected facts": "1. The guarantee on the frame is ten years\n2. It excludes rust",
        },
        {
            "rationale": "The ten years are in chunk 1. Missing: whether rust is covered.",
            "rating": "no",
        },
    ),
)


def _by_shared_words(sections: Sections) -> dict[str, Any]:
    wanted, chunks = expected_of(sections), chunks_of(sections)
    answer = rating(share(wanted, chunks), 0.6, "what is expected are in the chunks")
    missing = sorted(words(wanted) - words(chunks))
    if answer["rating"] == "no":
        answer["rationale"] += f"; missing: {', '.join(missing[:10])}"
    return answer


context_sufficiency = YesNoJudge(
    name="context_sufficiency",
    version="1",
    needs=("request", "expected_response|expected_facts", CHUNK_TEXT),
    rubric=RUBRIC,
    sections=lambda record: [
        *request(record),
        *context(record.retrieved_context),
        *expected(record),
    ],
    examples=EXAMPLES,
    automatic=True,
    predictor="retrieval_risk",
    report_path="retrieval/llm_judged/context_sufficiency",
    stand_in=_by_shared_words,
)


def expected_of(sections: Sections) -> str:
    """Return the answer that a prompt calls the expected one, as a text or as facts."""
    return sections.get("expected response") or sections.get("expected facts", "")
