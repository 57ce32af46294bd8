"""Answers that are decided before any call, because judges are known to fall for them.

A colon or the opening words of a reasoning, alone, get favourable verdicts from many models ("One
Token to Fool LLM-as-a-Judge", arXiv:2507.08794). They say nothing, and no model need be asked.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from llmeval_sdk.model import Evaluation, Record


_SAY_NOTHING = frozenset(
    {
        "thought process",
        "reasoning",
        "answer",
        "final answer",
        "the answer is",
        "solution",
        "let's solve this problem step by step",
        "let's think step by step",
        "let us solve this problem step by step",
        "解",
        "かいせつ",
        "respuesta",
    }
)
_MOST_SIGNS = max(sum(map(str.isalnum, phrase)) for phrase in _SAY_NOTHING)
_HEAD = 200
"""Signs of an answer that are looked at first: most answers say something long before."""


def empty_answer(record: Record) -> str | None:
    """Say why a record's response is no answer; ``None`` where it may be one.

    A response that is exactly what was expected is an answer, whatever it looks like.
    """
    answer = (record.response or "").strip()
    if answer and record.expected_response and answer == record.expected_response.strip():
        return None
    if sum(map(str.isalnum, answer[:_HEAD])) > _MOST_SIGNS:
        return None
    said = "".join(sign for sign in answer if _says_something(sign)).strip().casefold()
    if not said:
        return "The response is empty."
    if " ".join(said.replace("\u2019", "'").split()).strip("' ") in _SAY_NOTHING:
        return "The response only announces an answer."
    return None


def decided(judge: str, record: Record, outcome: str | float) -> Evaluation | None:
    """Return the outcome of a judge for a response that is no answer; ``None`` for any other."""
    nothing = empty_answer(record)
    if nothing is None:
        return None
    return Evaluation(judge, outcome, explanation=nothing, metadata={"decided_by": "precheck"})


@lru_cache(4_096)  # three judges of a record read the same few signs
def _says_something(sign: str) -> bool:
    """Letters, digits and symbols do; punctuation, space and control characters do not."""
    return sign in "'\u2019 " or unicodedata.category(sign)[0] in "LNSM"
