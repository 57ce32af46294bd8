"""Judge: does the response say what is expected?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.judges.base import BaseJudge, Forms, Typed, ask
from llmeval_sdk.judges.prompt import (
    FACTS,
    YES_NO,
    Example,
    Section,
    Sections,
    expected,
    rating,
    render,
    request,
    response,
    share,
)
from llmeval_sdk.judges.yes_no import decided
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.model.protocols import LLM


def _by_shared_words(sections: Sections) -> dict[str, object]:
    answer = sections.get("response", "")
    if "expected facts" not in sections:
        found = share(sections.get("expected response", ""), answer)
        return rating(found, 0.6, "the expected response are in the response")
    facts = []
    for line in sections["expected facts"].splitlines():
        number, _, fact = line.partition(". ")
        if number.isdigit():
            stated = "yes" if share(fact, answer) >= 0.6 else "no"
            facts.append({"number": int(number), "stated": stated})
    count = sum(fact["stated"] == "yes" for fact in facts)
    return {"facts": facts, "rationale": f"stand-in: {count} of {len(facts)} facts by their words"}


@dataclass(frozen=True)
class Correctness(BaseJudge):
    """Checks every expected fact one by one, or compares with the expected response."""

    name: str = "correctness"
    version: str = "1"
    needs: tuple[str, ...] = ("request", "response", "expected_facts|expected_response")
    output = "yes_no"
    automatic = True
    predictor = "groundedness_risk"
    stand_in = staticmethod(_by_shared_words)

    def settled(self, record: Record) -> Evaluation | None:
        """Decide what no answer gets, and what answers are worth where nothing is expected."""
        if record.expected_facts is not None and record.expected_response is not None:
            raise JudgeError(
                "bad_input", "give expected_facts or expected_response, not both: which one counts?"
            )
        outcome = decided(self.name, record, "no")
        if outcome is None and record.expected_facts is not None and not record.expected_facts:
            return Evaluation(self.name, metadata={"missing_inputs": "expected_facts"})
        return outcome

    def asks(self) -> str | None:
        """Return its question in words, for people who label what it judged."""
        return COMPARE

    def typed(self, forms: Forms) -> Typed:
        """Ask about each fact, or compare with the expected response."""
        check, compare = forms.facts(CHECK, _sections), forms.yes_no(COMPARE, _sections)
        return lambda record: (compare if record.expected_facts is None else check)(record)

    async def judge(self, record: Record, llm: LLM) -> Evaluation:
        """Ask once."""
        if record.expected_facts is None:
            return await self._compare(record, llm)
        return await self._check(record, len(record.expected_facts), llm)

    async def _compare(self, record: Record, llm: LLM) -> Evaluation:
        task = f"{self.name}/{self.version}"
        prompt = render(task, COMPARE, YES_NO, _sections(record), COMPARE_EXAMPLES)
        verdict = await ask(llm, prompt, YES_NO, max_tokens=1024)
        return Evaluation(
            self.name,
            verdict["rating"],
            explanation=verdict["rationale"],
            metadata=prompt.notes,
        )

    async def _check(self, record: Record, count: int, llm: LLM) -> Evaluation:
        task = f"{self.name}/{self.version}"
        prompt = render(task, CHECK, FACTS, _sections(record), CHECK_EXAMPLES)
        verdict = await ask(llm, prompt, FACTS)
        unstated = _unstated(verdict["facts"], count)
        return Evaluation(
            self.name,
            "no" if unstated else "yes",
            explanation=verdict["rationale"],
            metadata={"expected_facts": count, "unstated_facts": unstated, **prompt.notes},
        )


def _sections(record: Record) -> list[Section]:
    return [*request(record), *expected(record), *response(record)]


def _unstated(facts: list[dict[str, Any]], count: int) -> list[int]:
    """Return the numbers of the facts that are not stated; each must have been checked once."""
    if sorted(fact["number"] for fact in facts) != list(range(1, count + 1)):
        raise JudgeError("malformed", f"the verdict does not check each of the {count} facts once")
    return sorted(fact["number"] for fact in facts if fact["stated"] == "no")


CHECK = """
Check for every numbered expected fact whether the response states it.

A fact is stated where the response says the same thing, in whatever words, order or unit, or says
something from which it follows at once. It is not stated where the response is silent about it,
contradicts it, gives another number, name or date, or is vaguer than the fact in what matters. What
else the response says is of no interest.
"""

CHECK_EXAMPLES = (
    Example(
        {
            "request": "Tell me about the tower.",
            "expected facts": "1. It is 62 metres high\n2. It was finished in 1931",
            "response": "The tower, completed in 1931, is one of the highest in the region.",
        },
        {
            "facts": [{"number": 1, "stated": "no"}, {"number": 2, "stated": "yes"}],
            "rationale": "The year is there; the height is only called high, without a figure.",
        },
    ),
)

COMPARE = """
Decide whether the response is correct, measured by the expected response.

yes  the response is accurate and says the same in substance; other words, another order, more
     detail that does not conflict, and minor omissions are allowed
no   it contradicts the expected response, leaves out what its core is, hedges where the expected
     response is definite, or answers something else

The expected response counts as right, even if you believe otherwise.
"""

COMPARE_EXAMPLES = (
    Example(
        {
            "request": "Can I return opened paint?",
            "expected response": "No. Only unopened tins can be returned, within 14 days.",
            "response": "Opened tins cannot be taken back, I am afraid.",
        },
        {
            "rationale": "The core, no return once opened, is there; the period is a detail that "
            "the question did not ask for.",
            "rating": "yes",
        },
    ),
    Example(
        {
            "request": "How many coats does the fence need?",
            "expected response": "Two coats, one day apart.",
            "response": "One thick coat does it if the weather is dry.",
        },
        {"rationale": "One coat contradicts the two that are expected.", "rating": "no"},
    ),
)

correctness = Correctness()
