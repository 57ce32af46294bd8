"""Reports in files: how one of ours is known, so that nothing else is written over."""

from __future__ import annotations

from pathlib import Path

from llmeval_sdk.errors import ConfigurationError


IN_HTML = '<meta name="generator" content="llmeval report">'
IN_TEXT = "<!-- llmeval report -->"
"""In Markdown and XML."""
MARKS = {"html": IN_HTML, "markdown": IN_TEXT, "junit": IN_TEXT}
_BEGINNING = 400
"""Bytes of a file within which the mark stands."""


def spare(form: str, path: Path) -> None:
    """Refuse to write over a file that is no report of this form; an empty one will do.

    Raises:
        ConfigurationError: it holds something else, or cannot be read.
    """
    if not path.is_file():  # none yet, or a terminal or pipe
        return
    try:
        with path.open("rb") as file:
            begins = file.read(_BEGINNING)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    if begins and MARKS[form].encode() not in begins:
        raise ConfigurationError(
            f"--{form} {path}: this file is no such report of llmeval and is not written over: "
            "name another one, or remove it"
        )
