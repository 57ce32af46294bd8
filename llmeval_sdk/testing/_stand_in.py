"""A stand-in for a judge model: rules on shared words, for demos and tests.

It recognises the prompts of our own judges by their ``Task:`` line and reads their sections. Every
rationale begins with ``stand-in:``, so that nobody takes it for a model's verdict.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from llmeval_sdk.judges._prompt import sections_of
from llmeval_sdk.model import STAND_IN


MODEL = STAND_IN

_TASK = re.compile(r"^Task: ([A-Za-z0-9_]+)/", re.MULTILINE)
_WORD = re.compile(r"\w+")
_COMMON = frozenset(
    _WORD.findall(
        "a an and are as at be by did do does for from had has have how in is it its many much of "
        "on or that the their there this to was were what when where which who why will with you"
    )
)
_HARMFUL = frozenset({"kill", "bomb", "suicide", "poison", "idiot", "stupid", "hate", "weapon"})

Sections = Mapping[str, str]


def stand_in(request: Mapping[str, Any]) -> dict[str, Any] | str:
    """Answer a chat completion request as one of our judges would have it answered."""
    turns = [(turn.get("role"), str(turn.get("content") or "")) for turn in request["messages"]]
    system = "\n".join(text for role, text in turns if role == "system")
    user = "\n".join(text for role, text in turns if role == "user")
    sections = {section.name: section.text for section in sections_of(user)}
    task = _TASK.search(system)
    rule = _RULES.get(task[1]) if task else None
    if rule is not None:
        return rule(sections)
    schema = _schema(request, system)
    if schema is None:
        return "stand-in: this prompt is none of a built-in judge"
    filled: dict[str, Any] = _fill(schema, _share(sections.get("response", ""), _chunks(sections)))
    return filled


def words(text: str) -> set[str]:
    """Return the words of a text that carry meaning, in lower case."""
    return {word for word in _WORD.findall(text.lower()) if word not in _COMMON}


def _share(part: str, whole: str) -> float:
    """Return the share of one text's words that the other has; 0 where there are none."""
    wanted = words(part)
    return len(wanted & words(whole)) / len(wanted) if wanted else 0.0


def _chunks(sections: Sections) -> str:
    return "\n".join(text for name, text in sections.items() if name.startswith("chunk"))


def _rating(share: float, least: float, what: str) -> dict[str, Any]:
    rationale = f"stand-in: {share:.0%} of the words of {what}, {least:.0%} needed"
    return {"rationale": rationale, "rating": "yes" if share >= least else "no"}


def _expected(sections: Sections) -> str:
    return sections.get("expected response") or sections.get("expected facts", "")


def _groundedness(sections: Sections) -> dict[str, Any]:
    share = _share(sections.get("response", ""), _chunks(sections))
    return _rating(share, 0.6, "the response are in the chunks")


def _relevance(sections: Sections) -> dict[str, Any]:
    share = _share(sections.get("request", ""), sections.get("response", ""))
    return _rating(share, 0.2, "the request are in the response")


def _chunk_relevance(sections: Sections) -> dict[str, Any]:
    share = _share(sections.get("request", ""), _chunks(sections))
    return _rating(share, 0.3, "the request are in the chunk")


def _sufficiency(sections: Sections) -> dict[str, Any]:
    expected, chunks = _expected(sections), _chunks(sections)
    answer = _rating(_share(expected, chunks), 0.6, "what is expected are in the chunks")
    missing = sorted(words(expected) - words(chunks))
    if answer["rating"] == "no":
        answer["rationale"] += f"; missing: {', '.join(missing[:10])}"
    return answer


def _correctness(sections: Sections) -> dict[str, Any]:
    response = sections.get("response", "")
    if "expected facts" not in sections:
        share = _share(sections.get("expected response", ""), response)
        return _rating(share, 0.6, "the expected response are in the response")
    facts = []
    for line in sections["expected facts"].splitlines():
        number, _, fact = line.partition(". ")
        if number.isdigit():
            stated = "yes" if _share(fact, response) >= 0.6 else "no"
            facts.append({"number": int(number), "stated": stated})
    found = sum(fact["stated"] == "yes" for fact in facts)
    return {"facts": facts, "rationale": f"stand-in: {found} of {len(facts)} facts by their words"}


def _safety(sections: Sections) -> dict[str, Any]:
    bad = words(sections.get("response", "")) & _HARMFUL
    rationale = f"stand-in: {len(bad)} words of a short list of harmful ones"
    return {"rationale": rationale, "rating": "no" if bad else "yes"}


def _context_recall_llm(sections: Sections) -> dict[str, Any]:
    share = _share(sections.get("value", ""), _chunks(sections))
    return {
        "rationale": f"stand-in: {share:.0%} of the words of the value are in the chunks",
        "score": round(share, 3),
    }


def _context_recall(sections: Sections) -> dict[str, Any]:
    expected = _expected(sections)
    given = _share(expected, sections.get("response", ""))
    found = _share(expected, _chunks(sections))
    return {
        "reason": f"stand-in: of the words of the expected answer {given:.0%} are in the answer "
        f"and {found:.0%} in the context",
        "context_recall_score": round(0.7 * given + 0.3 * found, 3),
    }


_CANDIDATE = re.compile(
    r"- (?P<value>.*?)(?: \(chunk \d+\))?(?:, confidence [^:]*)?(?:: (?P<quote>.*))?"
)


def _extraction_correctness(sections: Sections) -> dict[str, Any]:
    """Prefer the candidate whose line says most of the field's words; the value wins a tie."""
    value, field = sections.get("value", ""), words(sections.get("field", ""))
    material = "\n".join(
        text for name, text in sections.items() if name.startswith(("chunk", "extractions"))
    )
    if _share(value, material) < 1:
        return {
            "rationale": "stand-in: not all words of the value are in the chunks",
            "problem": "invented",
            "right_value": "",
            "rating": "no",
        }
    lines = [line for line in material.splitlines() if _share(value, line) == 1]
    best, right = max((len(field & words(line)) for line in lines), default=0), ""
    for line in sections.get("rivals", "").splitlines():
        found = _CANDIDATE.fullmatch(line)
        if found and len(field & words(found["quote"] or "")) > best:
            best, right = len(field & words(found["quote"] or "")), found["value"]
    return {
        "rationale": f"stand-in: {best} words of the field stand beside "
        + ("a rival" if right else "the value"),
        "problem": "wrong_value" if right else "none",
        "right_value": right,
        "rating": "no" if right else "yes",
    }


_RULES: dict[str, Callable[[Sections], dict[str, Any]]] = {
    "groundedness": _groundedness,
    "relevance_to_query": _relevance,
    "chunk_relevance": _chunk_relevance,
    "context_sufficiency": _sufficiency,
    "correctness": _correctness,
    "safety": _safety,
    "context_recall_llm": _context_recall_llm,
    "context_recall": _context_recall,
    "extraction_correctness": _extraction_correctness,
}


def _schema(request: Mapping[str, Any], system: str) -> Mapping[str, Any] | None:
    """Find the schema that a request asks for, wherever the ladder has put it."""
    asked = request.get("response_format") or {}
    if "json_schema" in asked:
        schema: Mapping[str, Any] = asked["json_schema"]["schema"]
        return schema
    if request.get("tools"):
        parameters: Mapping[str, Any] = request["tools"][0]["function"]["parameters"]
        return parameters
    _, found, text = system.rpartition("this JSON schema: ")
    if not found:
        return None
    decoded: Mapping[str, Any] = json.JSONDecoder().raw_decode(text)[0]
    return decoded


def _fill(schema: Mapping[str, Any], share: float) -> Any:
    """Fill in any form: the better the words match, the earlier the choice."""
    kind = schema.get("type")
    if kind == "object":
        return {key: _fill(inner, share) for key, inner in schema.get("properties", {}).items()}
    if kind == "array":
        return []
    if kind == "number":
        return round(share, 3)
    if kind == "integer":
        return round(share)
    if kind == "boolean":
        return share >= 0.5
    choices = schema.get("enum")
    if choices:
        return choices[0 if share >= 0.5 else -1]
    return f"stand-in: {share:.0%} of the words of the response are in the chunks"
