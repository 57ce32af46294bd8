"""The exceptions a person may see: at ``configure()``, at registration and offline, never online.

LlmevalError
├── ConfigurationError      a setting, rule or evaluator that cannot be used
│   └── MissingExtraError   an optional library is not installed
├── DataError               a row that cannot be evaluated
├── JudgeError              a judge model that cannot be reached or understood
└── ExportError             raised by exporters, handled by delivery
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


__all__ = [
    "ConfigurationError", "DataError", "ExportError", "JudgeError", "LlmevalError",
    "MissingExtraError",
]  # fmt: skip


class LlmevalError(Exception):
    """Base of every exception of this package."""


class ConfigurationError(LlmevalError, ValueError):
    """A setting, rule or evaluator that cannot be used; the message says what to do."""


class MissingExtraError(ConfigurationError, ImportError):
    """An optional library is not installed. ``extra`` names the extra that has it, if one does."""

    extra = ""


class DataError(LlmevalError, ValueError):
    """A row of a data set that cannot be evaluated; the message names the row."""


class JudgeError(LlmevalError):
    """A judge call that gave no verdict.

    ``type`` is the low-cardinality reason: ``timeout``, ``malformed``, ``rate_limited``,
    ``unavailable``, ``refused``, ``unauthorized`` …; ``retry_after`` is in seconds. ``usage`` (a
    `model.Usage`) is what the call cost all the same, where the server said so.
    """

    def __init__(
        self,
        type: str,  # noqa: A002
        message: str = "",
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        usage: Any = None,
    ) -> None:
        super().__init__(message or type)
        self.type = type
        self.retryable = retryable
        self.retry_after = retry_after
        self.usage = usage


class ExportError(LlmevalError):
    """A batch that was not taken.

    ``retryable`` asks delivery to try again (after ``retry_after`` seconds where the far end said
    so); ``answered=False`` means the batch may have arrived, so it is counted as unknown. Of a
    batch that goes in several requests, ``delivered`` records were taken and ``refused`` ones were
    not, by reason, before the failure: the exporter sends only the rest when it is called again.
    """

    def __init__(
        self,
        reason: str,
        message: str = "",
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        answered: bool = True,
        delivered: int = 0,
        refused: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(message or reason)
        self.reason = reason
        self.delivered = delivered
        self.refused = refused or {}
        self.retryable = retryable
        self.retry_after = retry_after
        self.answered = answered


def missing_extra(feature: str, extra: str, package: str) -> MissingExtraError:
    """Build the one message that every missing library gets."""
    error = MissingExtraError(
        f"{feature} needs the package {package!r}: pip install 'llmeval-inprocess[{extra}]'"
    )
    error.extra = extra
    return error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Ask whether the known name that is most like a wrong one was meant; empty if none is."""
    import difflib

    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else ""


def is_like(name: str, other: str) -> bool:
    """Say whether two edits at most, whatever the case of letters, make one name of the other.

    An edit adds, drops or changes a letter, or swaps two neighbours.
    """
    from rapidfuzz.distance import OSA

    return OSA.distance(name.casefold(), other.casefold(), score_cutoff=2) <= 2


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `did_you_mean`, or else all known names, as the end of an error message."""
    return did_you_mean(name, names := sorted(known)) or f"known: {', '.join(names)}"
