"""Answers Ragas' prompts by known rules, so that its scores are known by arithmetic."""

import json
from collections.abc import Mapping
from typing import Any


def last_input(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sample at the end of one of Ragas' prompts."""
    text = "\n".join(str(turn["content"]) for turn in request["messages"])
    start = text.index("{", max(text.rfind("\ninput: "), text.rfind("\nInput: ")))
    found: dict[str, Any] = json.JSONDecoder().raw_decode(text[start:])[0]
    return found


def sentences(text: str) -> list[str]:
    """Split a text at its full stops."""
    return [part.strip() + "." for part in text.split(".") if part.strip()]


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer as a model would: what stands in the context word for word is supported.

    A context is useful where the word ``useful`` is in it. The question made of an answer is the
    text after ``Q:`` in it; an answer with ``unsure`` is noncommittal.
    """
    given = last_input(request)
    text = json.dumps(request["messages"])
    keys = set(given)
    if keys == {"question", "answer"}:
        return {"statements": sentences(given["answer"])}
    if keys == {"question", "text"}:
        return {"statements": sentences(given["text"])}
    if keys == {"context", "statements"}:
        context = given["context"].lower()
        return {
            "statements": [
                {"statement": each, "reason": "by rule", "verdict": int(each.lower() in context)}
                for each in given["statements"]
            ]
        }
    if keys == {"question", "context", "answer"} and "classifications" in text:
        context = given["context"].lower()
        return {
            "classifications": [
                {"statement": each, "reason": "by rule", "attributed": int(each.lower() in context)}
                for each in sentences(given["answer"])
            ]
        }
    if keys == {"question", "context", "answer"}:
        return {"reason": "by rule", "verdict": int("useful" in given["context"])}
    if keys == {"response"} and "noncommittal" in text:
        asked = given["response"].partition("Q:")[2].strip() or "?"
        return {"question": asked, "noncommittal": int("unsure" in given["response"])}
    if "response" in keys and "claims" in text:
        return {"claims": sentences(given["response"])}
    if keys in ({"user_input", "context"}, {"response", "context"}):
        return {"rating": 2}
    raise AssertionError(f"no rule for {keys}")
