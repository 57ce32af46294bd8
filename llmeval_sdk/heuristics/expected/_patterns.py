"""Regular expressions that are given up where a text makes them slow."""

from __future__ import annotations

from typing import Any

from llmeval_sdk.errors import ConfigurationError


SECONDS = 0.1
"""How long one search may take. A pattern of the developer's meets texts of strangers, and some
pairs take longer than the universe has time."""


def compiled(pattern: str, *, who: str) -> Any:
    """Compile a pattern of the package ``regex``, which can be given a deadline.

    Raises:
        ConfigurationError: the package is not installed, or the pattern is none.
    """
    try:
        import regex
    except ImportError as error:
        raise ConfigurationError(
            f"{who} needs the package regex: pip install 'llmeval-inprocess[schemas]'"
        ) from error
    try:
        return regex.compile(pattern)
    except regex.error as error:
        raise ConfigurationError(f"{who}: {pattern!r} is no pattern: {error}") from error


def searched(pattern: Any, text: str) -> Any | None:
    """Search a text; raises `TimeoutError` after `SECONDS`. Other threads run meanwhile."""
    return pattern.search(text, timeout=SECONDS, concurrent=True)
