"""Turns any value into JSON text that SQLite takes, and never raises an exception.

The values that capturing leaves (str, numbers, lists, dicts) go straight through the C encoder.
Only a value that it refuses is walked here: NaN becomes null, and what JSON cannot hold becomes a
marker such as ``<socket>``. Lone surrogates, which UTF-8 cannot hold, become question marks when a
row is written (`cell`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from operator import attrgetter
from typing import Any

from llmeval_sdk.model import Chunk, Evaluation, Extraction, Failure, Record, Usage


# Reads evaluations from the JSON that `store.encode.sparse` made of them.


def evaluation_from(plain: dict[str, Any]) -> Evaluation:
    """Make an evaluation of what `sparse` wrote, after it was parsed as JSON."""
    for name, kind in (("usage", Usage), ("error", Failure)):
        if plain.get(name) is not None:
            plain[name] = kind(**plain[name])
    if type(plain.get("value")) is int:
        plain["value"] = float(plain["value"])
    return Evaluation(**plain)


MAX_DEPTH = 32
MAX_NODES = 100_000

_INT64 = 1 << 63


def _known(value: Any) -> Any:
    """Give the encoder something it can write for a type that it does not know."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (tuple, set, frozenset)):
        return list(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"<{len(value)} bytes>"
    return f"<{type(value).__name__}>"


_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_known
).encode


def dumps(value: Any) -> str | None:
    """Write a value as JSON; ``None`` stays SQL's NULL."""
    if value is None:
        return None
    try:
        return _encode(value)
    except Exception:
        return _encode(_plain(value, [MAX_NODES], ()))


def _plain(value: Any, room: list[int], above: tuple[int, ...]) -> Any:  # noqa: PLR0911
    """Copy a value into what JSON has; cycles, depth and size end in a marker."""
    room[0] -= 1
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, int):
        bits = value.bit_length()
        return int(value) if bits <= 1024 else f"<int of {bits} bits>"
    if room[0] < 0:
        return "<no room>"
    if id(value) in above:
        return "<cycle>"
    if len(above) >= MAX_DEPTH:
        return "<too deep>"
    inner = (*above, id(value))
    try:
        known = value if isinstance(value, (dict, list)) else _known(value)
        if isinstance(known, dict):
            return {_key(key): _plain(item, room, inner) for key, item in list(known.items())}
        if isinstance(known, list):
            return [_plain(item, room, inner) for item in list(known)]
    except Exception:
        return f"<{type(value).__name__}>"
    return known


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    return str(key) if isinstance(key, (int, float, tuple)) or key is None else str(_known(key))


def loads(text: str | None, default: Any = None) -> Any:
    """Read what `dumps` wrote; a half of a surrogate pair, which it once wrote, becomes ``?``."""
    if text is None:
        return default
    value = json.loads(text)
    if "\\ud" in text:
        value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    return value


def cell(value: Any) -> Any:
    """Make a value acceptable to SQLite, for the rare row that it refused."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return int(value) if -_INT64 <= value < _INT64 else _float(value)
    if isinstance(value, float):
        return float(value)
    return value if value is None else f"<{type(value).__name__}>"


def _float(value: Any) -> float | None:
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError):
        return None


def score(value: Any) -> tuple[Any, str | None]:
    """Split a value into what is stored and, where it is no number, why not."""
    if value is None or isinstance(value, str):
        return value, None
    if isinstance(value, bool):
        return int(value), None
    number = _float(value)
    if number is None:
        return None, "not_a_number"
    return (number, None) if math.isfinite(number) else (None, "not_finite")


_NAMES = {
    kind: tuple(field.name for field in fields(kind))
    for kind in (Record, Chunk, Extraction, Evaluation, Usage, Failure)
}
_DEFAULTS = {kind: tuple(field.default for field in fields(kind)) for kind in _NAMES}
_READ = {kind: attrgetter(*names) for kind, names in _NAMES.items()}
_PLAIN = frozenset((str, int, float, bool))


def sparse(noun: Any) -> dict[str, Any]:
    """Return the fields of a noun that are present and differ from their default."""
    noun_kind = type(noun)
    present = {}
    values = _READ[noun_kind](noun)
    for name, value, default in zip(_NAMES[noun_kind], values, _DEFAULTS[noun_kind], strict=True):
        if value is None:
            continue
        kind = type(value)
        if kind in _PLAIN:
            if value != default:
                present[name] = value
        elif kind is tuple:
            held = value and type(value[0]) in _NAMES
            present[name] = [sparse(item) for item in value] if held else value
        elif kind in _NAMES:
            present[name] = sparse(value)
        elif value or kind is not dict:
            present[name] = value
    return present
