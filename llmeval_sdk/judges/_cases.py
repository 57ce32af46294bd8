"""Reads the cases of a rubric, which typed questions show as the options they describe."""

from __future__ import annotations

import re

from llmeval_sdk.model import Option


_CASE = re.compile(
    r"^(?P<name>yes|no|\d\.\d(?: - \d\.\d)?) {2,}(?P<text>.+(?:\n {2,}\S.*)*)\n?", re.MULTILINE
)
_FOR_THE_RATIONALE = re.compile(r"; (?:name|say) [^;]*$")
"""What a rubric asks to be written about a case: a decision model writes nothing."""


def cases_of(rubric: str) -> tuple[str, dict[str, str]]:
    """Split a rubric of ours into its instructions and its cases, which begin their own lines."""
    cases = {
        case["name"]: _FOR_THE_RATIONALE.sub("", " ".join(case["text"].split()))
        for case in _CASE.finditer(rubric)
    }
    paragraphs = (part.strip() for part in _CASE.sub("", rubric).split("\n\n"))
    return "\n\n".join(part for part in paragraphs if part), cases


def yes_and_no(rubric: str) -> tuple[str, tuple[Option, ...]]:
    """Return a rubric's instructions, and the two answers with their cases, where it has any."""
    instructions, cases = cases_of(rubric)
    return instructions, tuple(Option(word, cases[word]) for word in ("yes", "no") if word in cases)


def height(band: str) -> float:
    """Return the number that a level stands for: the middle of a band."""
    ends = [float(end) for end in band.split(" - ")]
    return round(sum(ends) / len(ends), 6)
