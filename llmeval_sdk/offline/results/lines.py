"""A row as a line of JSON, and back.

What is absent or as by default is left out, but an evaluation has all its columns on every line:
``value``, ``explanation`` and ``error``, as null where there is none.
"""

from __future__ import annotations

import json
from typing import Any

from llmeval_sdk.model import Chunk, Evaluation, Extraction, Failure, Record, Usage
from llmeval_sdk.offline.results.outputs import whole_numbers
from llmeval_sdk.offline.results.row import Row
from llmeval_sdk.store.encode import dumps, evaluation_from, sparse


def write_row(row: Row) -> bytes:
    """Write a row as one line of JSON."""
    said = {
        "number": row.number,
        "digest": row.digest,
        "record": sparse(row.record),
        "evaluations": [_evaluation(each) for each in row.evaluations.values()],
    }
    if row.error is not None:
        said["error"] = sparse(row.error)
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
    said |= sparse(evaluation)
    if evaluation.name in whole_numbers() and isinstance(evaluation.value, float):
        said["value"] = int(evaluation.value)
    return said
