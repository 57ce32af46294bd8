"""Redacts plain values: built-in detectors, then the app's own function, which may misbehave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from llmeval_sdk.redaction._aside import Aside
from llmeval_sdk.redaction._detectors import detectors
from llmeval_sdk.redaction._hints import hints


FAILED = "<redaction failed>"
_SECRET = "<redacted:secret>"  # noqa: S105 - what stands in its place
_NAMES = frozenset((
    "api_key", "apikey", "api-key", "openai_api_key", "password", "passwd", "secret",
    "client_secret", "access_token", "auth_token", "refresh_token", "authorization",
    "Authorization", "private_key", "credentials", "x-api-key",
))  # fmt: skip
"""Arguments and fields whose text is never kept, with detection of API keys switched on."""

Text = Callable[[str], str]


class Redactor:
    """What no text leaves without.

    Args:
        names: built-in detectors, see `DETECTORS`.
        custom: the app's own ``redact(text) -> text``, called with every text that was captured.
        timeout: seconds it may take for one record. While a call is overdue, everything is replaced
            by `FAILED`; so is what it raises on, and what it answers with anything but text.
    """

    def __init__(
        self, names: Iterable[str] = (), custom: Text | None = None, *, timeout: float = 2.0
    ) -> None:
        self._detectors = detectors(names)
        found = [each.name for each in self._detectors]
        self._hints = hints(found)
        self._names = _NAMES if "api_key" in found else frozenset()
        self._custom = None if custom is None else Aside(custom, timeout)

    @property
    def is_needed(self) -> bool:
        """Say whether there is anything to do at all."""
        return bool(self._detectors) or self._custom is not None

    @property
    def has_custom(self) -> bool:
        """Say whether the app's own function has a word."""
        return self._custom is not None

    def may_concern(self, record: bytes, named: Iterable[Mapping[str, Any] | None] = ()) -> bool:
        """Say whether the built-in detectors can find anything in a record's ``marshal`` form.

        ``named`` are mappings of it whose keys may say that a value is secret.
        """
        for hint in self._hints:
            if hint(record):
                return True
        if self._names:
            for fields in named:
                if fields and _names_one_of(self._names, fields):
                    return True
        return False

    def detect(self, value: Any) -> Any:
        """Redact all texts of a plain value, keys of mappings too, by the built-in detectors."""
        return self._walk(value, self._detect)

    def call_custom(self, value: Any) -> tuple[Any, bool]:
        """Redact all texts of a plain value by the app's function; keys of mappings stay.

        Returns the value, and False where anything failed.
        """
        if self._custom is None:
            return value, True
        texts: dict[str, str] = {}
        _collect(value, texts)
        changed = self._custom(texts)
        return _replace(value, changed), FAILED not in changed.values()

    def _detect(self, text: str) -> str:
        if len(text) > 5:
            for detector in self._detectors:
                text = detector.redact(text)
        return text

    def _walk(self, value: Any, text: Text) -> Any:
        cls = type(value)
        if cls is str:
            return text(value)
        if cls is dict:
            return {
                text(key) if type(key) is str else key: _SECRET
                if key in self._names and type(item) is str
                else self._walk(item, text)
                for key, item in value.items()
            }
        if cls is list or cls is tuple:
            return cls(self._walk(item, text) for item in value)
        return value


def _names_one_of(names: frozenset[str], fields: Mapping[str, Any]) -> bool:
    """Look at the keys of a mapping and of the mappings in it."""
    return not names.isdisjoint(fields) or any(
        type(item) is dict and not names.isdisjoint(item) for item in fields.values()
    )


def _collect(value: Any, into: dict[str, str]) -> None:
    """Gather the texts of a value, each once, marked as failed until somebody redacts them."""
    cls = type(value)
    if cls is str:
        if value:
            into[value] = FAILED
    elif cls is dict:
        for item in value.values():
            _collect(item, into)
    elif cls is list or cls is tuple:
        for item in value:
            _collect(item, into)


def _replace(value: Any, changed: Mapping[str, str]) -> Any:
    cls = type(value)
    if cls is str:
        return changed.get(value, value)
    if cls is dict:
        return {key: _replace(item, changed) for key, item in value.items()}
    if cls is list or cls is tuple:
        return cls(_replace(item, changed) for item in value)
    return value
