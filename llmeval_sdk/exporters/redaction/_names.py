"""Names of fields and arguments whose value is a secret, however they are spelled."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from llmeval_sdk.exporters.redaction._forms import (
    FIELD_NAMES,
    HARMLESS_NAMES,
    NAMING_FIELDS,
    PAIRED_NAME,
)


_ENDINGS = tuple(name.replace(" ", "") for name in FIELD_NAMES)
_SEPARATORS = str.maketrans("", "", "_-. :")
_NESTED = frozenset((dict, list, tuple))
_PAIRED = frozenset((PAIRED_NAME, PAIRED_NAME.capitalize()))
_LONGEST = 200


@lru_cache(maxsize=4096)
def _is_secret_name(name: str) -> bool:
    """Say whether a name ends like one of a secret: ``OPENAI_API_KEY``, ``clientSecret``, ``pwd``.

    Case, hyphens, underscores, dots and spaces do not matter. ``auth`` counts only by itself.
    """
    plain = name[-_LONGEST:].translate(_SEPARATORS).lower()
    return (plain.endswith(_ENDINGS) and plain not in HARMLESS_NAMES) or plain == "auth"


def hides(mapping: dict[Any, Any], key: Any) -> bool:
    """Say whether what stands under a key of a mapping is a secret.

    It is by its key, or by the name beside it: ``{"name": "DB_PASSWORD", "value": "…"}``. The
    ``token`` beside a ``logprob`` is a piece of an answer.
    """
    if type(key) is not str:
        return False
    if _is_secret_name(key):
        return key != "token" or "logprob" not in mapping
    return key in _PAIRED and any(
        type(name) is str and _is_secret_name(name) for name in map(mapping.get, NAMING_FIELDS)
    )


def has_secret_name(value: Any) -> bool:
    """Say whether a mapping anywhere in a plain value holds a secret by its names."""
    pending = [value]
    for each in pending:  # which grows meanwhile
        kind = type(each)
        if kind is dict:
            if not _harmless.issuperset(each) and _holds_secret(each):
                return True
            each = each.values()  # noqa: PLW2901
        elif kind is not list and kind is not tuple:
            continue
        for item in each:
            if type(item) is not str and type(item) in _NESTED:  # most are texts
                pending.append(item)  # noqa: PERF401 - half as dear as a list made for it
    return False


def _holds_secret(mapping: dict[Any, Any]) -> bool:
    for key, item in mapping.items():
        if hides(mapping, key) and item:
            return True
    if len(_harmless) < _MOST_KNOWN:
        _harmless.update(
            key
            for key in mapping
            if type(key) is str and key not in _PAIRED and not _is_secret_name(key)
        )
    return False


_harmless: set[str] = set()
"""Names that were looked at already: most mappings of an app have the same ones."""
_MOST_KNOWN = 4096
