"""Reads what a judge was asked, as the rubric's sections: for stand-ins and tests."""

from __future__ import annotations

import re

from llmeval_sdk.judges.prompt import Section, edge_line


_HEADER = re.compile(r"^<<begin (.+) ([0-9a-f]{32})>>$", re.MULTILINE)


def sections_of(text: str) -> list[Section]:
    """Return the sections of a rendered user message."""
    sections: list[Section] = []
    position = 0
    while header := _HEADER.search(text, position):
        name, boundary = header[1], header[2]
        end = text.find(f"\n{edge_line('end', name, boundary)}", header.end())
        if end < 0:
            break
        sections.append(Section(name, text[header.end() + 1 : max(end, header.end() + 1)]))
        position = end + 1
    return sections
