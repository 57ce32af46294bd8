"""Reads the one JSON object in what a model wrote: tolerant of its wrapping, strict about it."""

from __future__ import annotations

import itertools
import json
import re
from typing import NoReturn


MAX_CHARACTERS = 256_000
"""A reply longer than this is not read at all."""

_MAX_STARTS = 64
"""Opening braces that are tried, so that a reply of braces alone stays cheap; one with more is
refused, since a second object may stand behind them."""


class NoObjectError(ValueError):
    """A reply without exactly one JSON object."""


def only_object(text: str) -> dict[str, object]:
    """Decode the only JSON object in a reply.

    Code fences, a leading ``<think>`` block and prose around the object are passed over. Two
    objects, a repeated key, NaN and Infinity are refused, because they leave open what was meant.

    Raises:
        NoObjectError: There is not exactly one such object.
    """
    if len(text) > MAX_CHARACTERS:
        raise NoObjectError(f"the reply is longer than {MAX_CHARACTERS} characters")
    text = _without_thoughts(text)
    only: dict[str, object] | None = None
    position = text.find("{")
    for start in itertools.count():
        if position < 0:
            break
        if start == _MAX_STARTS:
            raise NoObjectError(f"the reply holds more than {_MAX_STARTS} opening braces")
        end = position + 1
        decoded, length = _decode(text, position)
        if decoded is not None:
            if only is not None:
                raise NoObjectError("the reply holds more than one JSON object")
            only, end = decoded, length
        position = text.find("{", end)
    if only is None:
        raise NoObjectError("the reply holds no JSON object")
    return only


def only_value(text: str) -> dict[str, object] | list[object]:
    """Decode a reply that is one JSON array, or that holds one object as `only_object` says.

    Raises:
        NoObjectError: There is neither.
    """
    bare = text[: MAX_CHARACTERS + 1].strip()
    fence = _FENCE.match(bare, 0, _MAX_FENCE)
    bare = bare[fence.end() if fence else 0 :].removesuffix("```").strip()
    if not bare.startswith("["):
        return only_object(text)
    if len(text) > MAX_CHARACTERS:
        raise NoObjectError(f"the reply is longer than {MAX_CHARACTERS} characters")
    try:
        value: list[object] = _DECODER.decode(bare)
    except (ValueError, RecursionError) as problem:
        raise NoObjectError(f"the reply's JSON cannot be used: {problem}") from None
    return value


_FENCE = re.compile(r"```[a-zA-Z]{0,10}\s")
_MAX_FENCE = 20


def _decode(text: str, position: int) -> tuple[dict[str, object] | None, int]:
    try:
        value, end = _DECODER.raw_decode(text, position)
    except json.JSONDecodeError:
        return None, position
    except (ValueError, RecursionError) as problem:
        raise NoObjectError(f"the reply's JSON cannot be used: {problem}") from None
    return value, end


def _without_thoughts(text: str) -> str:
    start = text.lstrip()
    if start.startswith("<think>"):
        return start.partition("</think>")[2]
    return text


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    decoded = dict(pairs)
    if len(decoded) != len(pairs):
        raise NoObjectError("a key stands twice in the reply's JSON object")
    return decoded


def _no_constant(word: str) -> NoReturn:
    raise NoObjectError(f"{word} is not a value")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
