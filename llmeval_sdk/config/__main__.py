"""Prints the settings as Markdown, for the reference: ``python -m llmeval_sdk.config``."""

from __future__ import annotations

import sys
from collections.abc import Collection

from llmeval_sdk import registry
from llmeval_sdk.config.reading import DEFAULT, Row, allowed
from llmeval_sdk.config.settings import areas, as_text, careful_words


def table() -> str:
    """Return the settings as Markdown, one table for each area."""
    return "\n".join(_area(title, table.rows.values()) for title, table in areas().items())


def _area(title: str, rows: Collection[Row]) -> str:
    columns = "| variable | values | default | if it cannot be read | what it is |"
    lines = [f"**{title}**", "", columns, "|" + " --- |" * 5]
    exporters = ", ".join(f"`{name}`" for name in registry.table("exporters"))
    for row in rows:
        if row.form_of is not None:
            continue
        forms = [form for form in rows if form.form_of == row.name]
        variables = ", ".join(f"`{name}`" for form in (row, *forms) for name in form.variables)
        about = " ".join(form.doc for form in (row, *forms))
        about = about.replace("{exporters}", exporters)
        cells = variables, allowed(row.read), _default(row.default), careful(row), about
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def careful(row: Row) -> str:
    """Return in words what follows where a row's variable is set and cannot be read."""
    if row.closes is None and row.careful is not DEFAULT:
        value = row.careful("", None) if callable(row.careful) else row.careful
        return f"`{as_text(value)}`"
    return careful_words(row, row.default).removeprefix("using ")


def _default(value: object) -> str:
    return "–" if value is None or value == () else f"`{as_text(value)}`"


if __name__ == "__main__":
    sys.stdout.write(table())
