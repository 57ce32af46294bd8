"""Names of fields and arguments whose value is a secret, however they are spelled."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from llmeval_sdk.redaction._forms import FIELD_NAMES, HARMLESS_NAMES


_ENDINGS = tuple(name.replace(" ", "") for name in FIELD_NAMES)
_SEPARATORS = str.maketrans("", "", "_-. :")
_NESTED = frozenset((dict, list, tuple))
_LONGEST = 200


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Say whether a name ends like one of a secret: ``OPENAI_API_KEY``, ``clientSecret``, ``pwd``.

    Case, hyphens, underscores, dots and spaces do not matter. ``auth`` counts only by itself.
    """
    plain = name[-_LONGEST:].translate(_SEPARATORS).lower()
    return (plain.endswith(_ENDINGS) and plain not in HARMLESS_NAMES) or plain == "auth"


def has_secret_name(value: Any) -> bool:
    """Say whether a mapping anywhere in a plain value has a key that names a secret."""
    if type(value) is dict:
        for key, item in value.items():
            if type(key) is str and is_secret_name(key) and item:
                return True
            if type(item) in _NESTED and has_secret_name(item):
                return True
    elif type(value) in _NESTED:
        for item in value:
            if type(item) in _NESTED and has_secret_name(item):
                return True
    return False
