"""Prints the settings as Markdown, for the reference: ``python -m llmeval_sdk.config``."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import Any

from llmeval_sdk import registry
from llmeval_sdk.config.reading import allowed
from llmeval_sdk.config.settings import areas


def table() -> str:
    """Return the settings as Markdown, one table for each area."""
    return "\n".join(_area(title, fields(table)) for title, table in areas().items())


def _area(title: str, rows: tuple[Any, ...]) -> str:
    lines = [f"**{title}**", "", "| variable | values | default | what it is |", "|" + " --- |" * 4]
    exporters = ", ".join(f"`{name}`" for name in registry.table("exporters"))
    for row in rows:
        if row.metadata["form_of"] is not None:
            continue
        forms = [form for form in rows if form.metadata["form_of"] == row.name]
        variables = ", ".join(
            f"`{name}`" for form in (row, *forms) for name in form.metadata["env"]
        )
        about = " ".join(form.metadata["doc"] for form in (row, *forms))
        about = about.replace("{exporters}", exporters)
        values = allowed(row.metadata["read"])
        lines.append(f"| {variables} | {values} | {_default(row.default)} | {about} |")
    return "\n".join(lines) + "\n"


def _default(value: object) -> str:
    if value is None or value == ():
        return "–"
    if isinstance(value, tuple):
        return f"`{','.join(value)}`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    sys.stdout.write(table())
