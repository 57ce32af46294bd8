"""A row as a line of JSON, and back.

What is absent or as by default is left out, but an evaluation has all its columns on every line:
``value``, ``explanation`` and ``error``, as null where there is none.
"""

from __future__ import annotations

import json
from dataclasses import fields
from operator import attrgetter
from typing import Any

from llmeval_sdk.model import Chunk, Evaluation, Extraction, Failure, Record, Usage
from llmeval_sdk.offline.results.outputs import whole_numbers
from llmeval_sdk.offline.results.row import Row
from llmeval_sdk.store.encode import dumps


_NAMES = {
    kind: tuple(each.name for each in fields(kind))
    for kind in (Record, Chunk, Extraction, Evaluation, Usage, Failure)
}
_DEFAULTS = {kind: tuple(each.default for each in fields(kind)) for kind in _NAMES}
_READ = {kind: attrgetter(*names) for kind, names in _NAMES.items()}
_PLAIN = frozenset((str, int, float, bool))


def _sparse(noun: Any) -> dict[str, Any]:
    """Return the fields of a noun that are there and not what they are by default."""
    noun_kind = type(noun)
    found = {}
    values = _READ[noun_kind](noun)
    for name, value, default in zip(_NAMES[noun_kind], values, _DEFAULTS[noun_kind], strict=True):
        if value is None:
            continue
        kind = type(value)
        if kind in _PLAIN:
            if value != default:
                found[name] = value
        elif kind is tuple:
            held = value and type(value[0]) in _NAMES
            found[name] = [_sparse(item) for item in value] if held else value
        elif kind in _NAMES:
            found[name] = _sparse(value)
        elif value or kind is not dict:
            found[name] = value
    return found


def write_row(row: Row) -> bytes:
    """Write a row as one line of JSON."""
    said = {
        "number": row.number,
        "digest": row.digest,
        "record": _sparse(row.record),
        "evaluations": [_evaluation(each) for each in row.evaluations.values()],
    }
    if row.error is not None:
        said["error"] = _sparse(row.error)
    line = dumps(said)
    assert line is not None
    return line.encode("utf-8", "backslashreplace") + b"\n"


def read_row(line: bytes) -> Row:
    """Read what `write_row` wrote; raises ``ValueError`` for anything else."""
    said = json.loads(line)
    record = said["record"]
    for name, kind in _NOUNS.items():
        if name in record:
            record[name] = tuple(kind(**item) for item in record[name])
    if "expected_facts" in record:
        record["expected_facts"] = tuple(record["expected_facts"])
    if "usage" in record:
        record["usage"] = Usage(**record["usage"])
    error = said.get("error")
    return Row(
        Record(**record),
        {each["name"]: evaluation_from(each) for each in said["evaluations"]},
        said["number"],
        Failure(**error) if error else None,
        said["digest"],
    )


_NOUNS = {
    "retrieved_context": Chunk,
    "expected_retrieved_context": Chunk,
    "extractions": Extraction,
}


def _evaluation(evaluation: Evaluation) -> dict[str, Any]:
    said: dict[str, Any] = {
        "name": evaluation.name,
        "value": None,
        "explanation": None,
        "error": None,
    }
    said |= _sparse(evaluation)
    if evaluation.name in whole_numbers() and isinstance(evaluation.value, float):
        said["value"] = int(evaluation.value)
    return said


def evaluation_to(evaluation: Evaluation) -> dict[str, Any]:
    """Write an evaluation as JSON has it."""
    return _sparse(evaluation)


def evaluation_from(said: dict[str, Any]) -> Evaluation:
    """Read what `evaluation_to` wrote."""
    for name, kind in (("usage", Usage), ("error", Failure)):
        if said.get(name) is not None:
            said[name] = kind(**said[name])
    if type(said.get("value")) is int:
        said["value"] = float(said["value"])
    return Evaluation(**said)
