"""Pieces of HTML. What rows and apps say goes through `text`."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def text(said: str) -> str:
    """Return a text that is no markup, in any encoding's worst case."""
    return escape(said.encode("utf-8", "replace").decode())


def metric(path: str, evaluator: str) -> str:
    """Return a metric's path with the evaluator's name standing out; it may break at slashes."""
    parts = (
        f"<b>{text(part)}</b>" if evaluator in (part, f"total_{part}") else text(part)
        for part in path.split("/")
    )
    return f'<code title="{text(path)}">{"/<wbr>".join(parts)}</code>'


def mark(said: str, *, good: bool | None) -> str:
    """Make a few words in a coloured field; grey where they are neither good nor bad."""
    kind = "soft" if good is None else "good" if good else "bad"
    return f'<span class="mark {kind}">{text(said)}</span>'


def cells(row: Iterable[tuple[str, str]], tag: str = "td") -> str:
    """Make a row of a table of classes and cells that are HTML already."""
    inside = (
        f'<{tag} class="{kind}">{cell}</{tag}>' if kind else f"<{tag}>{cell}</{tag}>"
        for kind, cell in row
    )
    return f"<tr>{''.join(inside)}</tr>"


def table(head: Iterable[tuple[str, str]], rows: Iterable[str]) -> str:
    """Make a table of classes and titles, and of rows that are HTML already."""
    return f"<table>{cells(head, 'th')}{''.join(rows)}</table>"
