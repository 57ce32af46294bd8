"""Redacts plain values: built-in detectors, then the app's own function, which may misbehave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from llmeval_sdk.exporters.redaction._detectors import detectors
from llmeval_sdk.exporters.redaction._secrets import has_secret_name, hides, hints
from llmeval_sdk.process.helper_threads import HelperThreads, NoAnswerError, NotCalledError


FAILED = "<redaction failed>"
_SECRET = "<redacted:secret>"  # noqa: S105 - what stands in its place
Text = Callable[[str], str]


class Redactor:
    """What no text leaves without.

    Args:
        names: built-in detectors, see `DETECTORS`.
        custom: the app's own ``redact(text) -> text``, called with every text that was captured.
        timeout: seconds it may take for one record. A record that it does not answer for in time is
            replaced by `FAILED` as a whole, and so is every record while it is not called, because
            too many of its calls hang (`process.helper_threads`). A text on which it raises
            or that it answers with anything but text becomes `FAILED` too.
    """

    def __init__(
        self, names: Iterable[str] = (), custom: Text | None = None, *, timeout: float = 2.0
    ) -> None:
        self._detectors = detectors(names)
        kinds = [detector.name for detector in self._detectors]
        self._hints = hints(kinds)
        self._reads_names = "api_key" in kinds
        self._custom = custom
        self._timeout = timeout
        self._aside = HelperThreads("redact")

    @property
    def is_needed(self) -> bool:
        """Say whether there is anything to do at all."""
        return bool(self._detectors) or self._custom is not None

    @property
    def has_custom(self) -> bool:
        """Say whether the app's own function has a word."""
        return self._custom is not None

    def may_concern(self, record: bytes, value: Any = None) -> bool:
        """Say whether the built-in detectors can find anything in a plain value.

        ``record`` is the ``marshal`` form of the value, whose texts are looked at there, and
        which has a brace where the value has a mapping.
        """
        for hint in self._hints:
            if hint(record):
                return True
        return self._reads_names and b"{" in record and has_secret_name(value)

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
        if not texts:
            return value, True
        try:
            changed = self._aside.call(
                _answers, self._custom, texts, patience=lambda: self._timeout
            )
        except (NotCalledError, NoAnswerError):
            changed = texts
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
                text(key) if type(key) is str else key: _hidden(item)
                if self._reads_names and hides(value, key)
                else self._walk(item, text)
                for key, item in value.items()
            }
        if cls is list or cls is tuple:
            return cls(self._walk(item, text) for item in value)
        return value


def _answers(custom: Text, texts: Mapping[str, str]) -> dict[str, str]:
    """Return what the app's function makes of each text; the marker stays where it fails."""
    answers = dict(texts)
    for text in texts:
        try:
            answer = custom(text)
        except BaseException:  # even a SystemExit: nothing may leave unredacted  # noqa: S112
            continue
        if type(answer) is str:
            answers[text] = answer
    return answers


def _hidden(value: Any) -> Any:
    """Replace what stands under the name of a secret; numbers of tokens and flags are none."""
    cls = type(value)
    if cls is str:
        return _SECRET if value else value
    if cls is dict:
        return {key: _hidden(item) for key, item in value.items()}
    if cls is list or cls is tuple:
        return cls(_hidden(item) for item in value)
    return value


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
