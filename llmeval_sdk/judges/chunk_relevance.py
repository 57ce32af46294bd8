"""Judge: which of the retrieved chunks are relevant to the request?"""

from __future__ import annotations

from dataclasses import dataclass

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.judges.base import BaseJudge, Forms, Typed, ask, rate_chunks
from llmeval_sdk.judges.prompt import (
    YES_NO,
    Example,
    Section,
    Sections,
    chunks_of,
    rating,
    render,
    request,
    share,
)
from llmeval_sdk.model import Chunk, Evaluation, Record, Unit
from llmeval_sdk.model.fields import CHUNK_TEXT
from llmeval_sdk.model.protocols import LLM


def _by_shared_words(sections: Sections) -> dict[str, object]:
    found = share(sections.get("request", ""), chunks_of(sections))
    return rating(found, 0.3, "the request are in the chunk")


@dataclass(frozen=True)
class ChunkRelevance(BaseJudge):
    """Precision of retrieval: relevant chunks / rated chunks, with the ratings one by one.

    Each chunk is judged by itself, several at a time; equal texts are judged once.
    """

    name: str = "chunk_relevance"
    version: str = "1"
    needs: tuple[str, ...] = ("request", CHUNK_TEXT)
    per: Unit = "chunk"
    output = "yes_no"
    automatic = True
    stand_in = staticmethod(_by_shared_words)

    def asks(self) -> str | None:
        """Return its question in words, for people who label what it judged."""
        return RUBRIC

    def typed(self, forms: Forms) -> Typed:
        """Ask about each chunk."""
        return forms.chunks(RUBRIC, request)

    async def judge(self, record: Record, llm: LLM) -> Evaluation:
        """Ask once per distinct chunk."""
        asked = request(record)

        async def rate(chunk: Chunk) -> Evaluation:
            if not (chunk.content or "").strip():
                raise JudgeError("bad_input", "the chunk holds no text")
            sections = [*asked, Section("chunk", chunk.content or "")]
            prompt = render(f"{self.name}/{self.version}", RUBRIC, YES_NO, sections, EXAMPLES)
            verdict = await ask(llm, prompt, YES_NO, max_tokens=1024)
            return Evaluation(
                self.name,
                verdict["rating"],
                explanation=verdict["rationale"],
                metadata=prompt.notes,
            )

        chunks = record.retrieved_context or ()
        return await rate_chunks(self.name, chunks, rate, same=lambda chunk: chunk.content)


RUBRIC = """
A search brought up the passage in section "chunk". Decide whether it is relevant to the request,
which is to be read in the light of the earlier conversation, where there is one.

yes  the passage contains something that a good answer would use: the answer, a part of it, or a
     condition, exception or definition that it depends on
no   it shares words or a general subject with the request, but nothing in it helps to answer

It need not answer the request alone. Whether it is right, recent or well written does not matter.
"""

EXAMPLES = (
    Example(
        {
            "request": "What does it cost to store a bicycle at the station?",
            "chunk": "Lockers for luggage and bicycles: first day free, then 2.50 a day.",
        },
        {"rationale": "It gives the price that is asked for.", "rating": "yes"},
    ),
    Example(
        {
            "request": "What does it cost to store a bicycle at the station?",
            "chunk": "The station has been a meeting point for cyclists since 1974.",
        },
        {
            "rationale": "Station and cyclists come up, storage and its price do not.",
            "rating": "no",
        },
    ),
)

chunk_relevance = ChunkRelevance()
