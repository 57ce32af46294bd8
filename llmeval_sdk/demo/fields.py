"""The fields the demo extracts: what is asked, and how a value looks."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """One question asked of every document."""

    name: str
    question: str
    """The question for people and judges; ``{package}`` is the document's name."""
    search: str
    """What both retrievers search the document for."""
    holds: re.Pattern[str]
    """What a passage has to hold to be able to answer at all; the rest is filtered out."""
    description: str
    """What a good value is, for people and for judges."""
    format: str | None = None
    """Regular expression a value has to match."""

    def config(self) -> dict[str, str]:
        """Describe the field to the SDK, as ``annotate(field_config=...)`` takes it."""
        known = {"name": self.name, "description": self.description}
        return known | ({"format": self.format} if self.format else {})


FIELDS = {
    field.name: field
    for field in (
        Field(
            "license",
            "Which license is {package} distributed under?",
            "license licensed under permission granted copyright redistribution terms",
            re.compile(r"licen[cs]e|permission|redistribution|public domain", re.IGNORECASE),
            "SPDX identifier of the license the package is distributed under",
        ),
        Field(
            "author",
            "Who wrote or maintains {package}?",
            "copyright (c) by author maintainer all rights reserved",
            re.compile(
                r"copyright\s+(\(c\)|©|&copy;|\d{4})|\bauthors?\b\s*[:\n]"
                r"|(maintained|created|written|developed) by",
                re.IGNORECASE,
            ),
            "Name of a person or organisation that wrote or maintains the package",
        ),
        Field(
            "minimum_python",
            "What is the lowest Python version that {package} runs on?",
            "requires supports python version 3 or later above compatibility",
            re.compile(r"python[^\n]{0,80}\d\.\d|\d\.\d[^\n]{0,40}python", re.IGNORECASE),
            "Lowest Python version the package runs on, as major.minor",
            r"\d\.\d{1,2}",
        ),
        Field(
            "repository",
            "Where is the source code of {package}?",
            "source code github repository issues contributing bug report pull request",
            re.compile(r"(github|gitlab|bitbucket|codeberg)\.(com|org)/\w", re.IGNORECASE),
            "Address of the source code repository",
            r"https://[\w.-]+/\S+",
        ),
        Field(
            "documentation",
            "Where is the documentation of {package}?",
            "documentation docs readthedocs user guide manual tutorial",
            re.compile(
                r"\bdoc(s|umentation)?\b[^\n]{0,80}https?://|https?://\S*doc", re.IGNORECASE
            ),
            "Address of the documentation",
            r"https://[\w.-]+\S*",
        ),
        Field(
            "summary",
            "What is {package} for?",
            "{package} is a python library package tool framework that provides for",
            re.compile(
                r"\b(is|are|provides?|library|package|tool|framework|module)\b", re.IGNORECASE
            ),
            "One sentence that says what the package is for",
        ),
    )
}
