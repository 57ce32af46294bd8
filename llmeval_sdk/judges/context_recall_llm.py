"""Judge: do the first chunks hold everything that was needed to fill in a field?"""

from __future__ import annotations

from dataclasses import dataclass

from llmeval_sdk.judges.base import BaseJudge, Forms, Typed, ask
from llmeval_sdk.judges.prompt import (
    SCORE,
    Example,
    Section,
    Sections,
    as_text,
    chunks_of,
    context,
    in_range,
    render,
    request,
    share,
)
from llmeval_sdk.model import Evaluation, Record, Unit
from llmeval_sdk.model.fields import CHUNK_TEXT
from llmeval_sdk.model.protocols import LLM


CHUNKS = 10
"""How many chunks, in rank order, the judge reads."""


def _by_shared_words(sections: Sections) -> dict[str, object]:
    found = share(sections.get("value", ""), chunks_of(sections))
    return {
        "rationale": f"stand-in: {found:.0%} of the words of the value are in the chunks",
        "score": round(found, 3),
    }


@dataclass(frozen=True)
class ContextRecallLLM(BaseJudge):
    """Share of the needed information that retrieval brought, 0..1, in one call.

    It is what `context_recall_heuristic` escalates to when too few chunks contributed: only a
    reader can tell a field that one chunk answers in full from one whose evidence was not found.
    A request that found no value needs it most, so the value is shown where there is one.
    """

    name: str = "context_recall_llm"
    version: str = "1"
    needs: tuple[str, ...] = ("request", CHUNK_TEXT)
    per: Unit = "answer"
    output = "score"
    predictor = "context_recall_heuristic"
    stand_in = staticmethod(_by_shared_words)

    def lacks(self, record: Record) -> str | None:
        """Name the text that is missing where only later chunks have any."""
        readable = not record.retrieved_context or _chunks(record)
        return None if readable else f"text in the first {CHUNKS} chunks"

    def settled(self, record: Record) -> Evaluation | None:
        """Decide what a search that brought nothing gets."""
        if record.retrieved_context:
            return None
        return Evaluation(self.name, 0.0, explanation="Nothing was retrieved.")

    def asks(self) -> str | None:
        """Return its question in words, for people who label what it judged."""
        return RUBRIC

    def typed(self, forms: Forms) -> Typed:
        """Ask for the level of the rubric that applies."""
        return forms.levels(RUBRIC.rpartition("\n\n")[0], _sections)

    async def judge(self, record: Record, llm: LLM) -> Evaluation:
        """Ask once, about the first `CHUNKS` chunks."""
        sections = _sections(record)
        prompt = render(f"{self.name}/{self.version}", RUBRIC, SCORE, sections, EXAMPLES)
        verdict = await ask(llm, prompt, SCORE, max_tokens=1024)
        return Evaluation(
            self.name,
            in_range(verdict["score"]),
            explanation=verdict["rationale"],
            metadata={"chunks": len(_chunks(record)), **prompt.notes},
        )


def _sections(record: Record) -> list[Section]:
    value = record.response if record.value is None else as_text(record.value)
    found = Section("value", value or "(none was found)")
    return [*request(record), *_field(record), found, *_chunks(record)]


def _chunks(record: Record) -> list[Section]:
    return context((record.retrieved_context or ())[:CHUNKS])


def _field(record: Record) -> list[Section]:
    config = record.field_config or {}
    lines = [f"{key}: {as_text(config[key])}" for key in ("name", "description") if config.get(key)]
    return [Section("field", "\n".join(lines))] if lines else []


RUBRIC = """
A system was asked for a piece of information (section "request", described in "field" where that is
known). It searched its documents, got the numbered chunks, and settled on the text in "value".

Judge the search, not the value. Work out what somebody needs to read to answer the request with
certainty, then see how much of that the chunks contain. Chunks that have nothing to do with the
request neither help nor hurt.

1.0  the chunks contain all of it; the value can be confirmed or corrected from them alone
0.7  the main part is there, a detail that matters (unit, date, scope, exception) is not
0.4  hints only: the subject is mentioned, what was asked for has to be guessed
0.0  nothing in the chunks bears on the request

Values in between are welcome. Name the chunks you rely on and say what is missing.
"""

EXAMPLES = (
    Example(
        {
            "request": "leaseTerm",
            "field": "name: leaseTerm; description: length of the lease, in months",
            "value": "36",
            "chunk 1": "The tenant shall keep the premises clean and free of vermin.",
            "chunk 2": "This lease runs for three years from the commencement date.",
        },
        {
            "rationale": "Chunk 2 states the term, three years, which is 36 months. "
            "Nothing else is needed.",
            "score": 1.0,
        },
    ),
    Example(
        {
            "request": "maximum operating pressure of the pump",
            "value": "8 bar",
            "chunk 1": "The pump is painted with two coats of marine enamel.",
            "chunk 2": "Do not exceed the operating pressure given on the type plate.",
        },
        {
            "rationale": "Chunk 2 says that a limit exists and where it stands, but no chunk gives "
            "the figure: the type plate's data are missing.",
            "score": 0.3,
        },
    ),
)

context_recall_llm = ContextRecallLLM()
