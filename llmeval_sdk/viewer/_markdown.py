"""Markdown as a page shows it: what a model wrote is formatted, and nothing of it is obeyed.

HTML in the text stays text. Links and images stay as they were written, so that no answer can lead
a reader elsewhere or tell a stranger that it was read.
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markupsafe import Markup


MOST_TEXT = 8_000
"""A longer text is shown as it was written. Some texts of 20,000 characters take seconds."""
MOST_LINES = 200
_MOST_COLUMNS = 20
_MARKUP = re.compile(
    r"^ {0,3}(?:#{1,6} |[-*+] |\d{1,3}[.)] |> |```|~~~|\|.*\|)|\*\*\S|`[^`\n]+`", re.MULTILINE
)
_PARSER = (
    MarkdownIt("commonmark", {"html": False, "maxNesting": 12})
    .enable(["table", "strikethrough"])
    .disable(["html_inline", "html_block", "link", "image", "autolink", "reference", "entity"])
)


def rendered(text: str) -> Markup | None:
    """Return a text formatted as its Markdown asks.

    ``None`` is returned for a text without Markdown, or with more of it than a page has time for.
    """
    lines = text.split("\n")
    if len(text) > MOST_TEXT or len(lines) > MOST_LINES or _MARKUP.search(text) is None:
        return None
    if max(line.count("|") for line in lines) > _MOST_COLUMNS:
        return None
    return Markup(_PARSER.render(text))  # noqa: S704 - the parser escapes what it does not format
