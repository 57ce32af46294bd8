"""One evaluated row, its paths, and how it is written as JSON."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from hashlib import blake2b
from operator import attrgetter
from typing import Any

from llmeval_sdk.judges._request import as_text, split_request
from llmeval_sdk.model import Chunk, Evaluation, Extraction, Failure, Record, Score, Usage
from llmeval_sdk.store.encode import dumps


@dataclass(frozen=True, slots=True)
class Row:
    """One row and what the evaluators said of it."""

    record: Record
    evaluations: Mapping[str, Evaluation] = field(default_factory=dict)
    """By evaluator. One whose inputs are missing has no value and says which in its explanation."""
    number: int = 0
    """Its place in the data, from 1 on."""
    error: Failure | None = None
    """What the model raised on it; it was not evaluated then."""
    digest: str = ""
    """Of what was read: the same for the same row of another run."""

    @property
    def id(self) -> str:
        """The request's id, else the row's number."""
        return self.record.request_id or f"row {self.number}"


def only(row: Row, names: Container[str | None]) -> Row:
    """Return a row with what some of the evaluators said."""
    found = {name: each for name, each in row.evaluations.items() if name in names}
    return replace(row, evaluations=found)


def digest_of(record: Record) -> str:
    """Identify a row by its content."""
    return blake2b((dumps(record) or "").encode("utf-8", "replace"), digest_size=12).hexdigest()


def digest_of_request(record: Record) -> str:
    """Identify what was asked."""
    said = dumps([record.request]) or ""
    return blake2b(said.encode("utf-8", "replace"), digest_size=12).hexdigest()


def outcomes(evaluation: Evaluation) -> dict[str, Score]:
    """Return what an evaluation says by the schema's paths, aggregates aside."""
    base, per_chunk = base_of(evaluation)
    said: dict[str, Any]
    if per_chunk:
        metadata = evaluation.metadata
        said = {key: metadata.get(key) for key in ("ratings", "rationales", "error_messages")}
        said["precision"] = evaluation.value
    elif "/llm_judged/" in base:
        said = {"rating": evaluation.value, "rationale": evaluation.explanation}
        said["error_message"] = evaluation.error and (
            evaluation.error.message or evaluation.error.type
        )
    else:
        return {base: evaluation.value}
    return {f"{base}/{key}": value for key, value in said.items()}


_AT = {
    "document_recall": "retrieval/ground_truth/document_recall",
    "context_sufficiency": "retrieval/llm_judged/context_sufficiency",
    "total_token_count": "agent/total_token_count",
    "total_input_token_count": "agent/total_input_token_count",
    "total_output_token_count": "agent/total_output_token_count",
    "latency_seconds": "agent/latency_seconds",
}
_AVERAGES = {
    "agent/total_input_token_count": "agent/input_token_count/average",
    "agent/total_output_token_count": "agent/output_token_count/average",
    "response/llm_judged/safety": "response/llm_judged/safety/rating/average",
}


def base_of(evaluation: Evaluation) -> tuple[str, bool]:
    """Return where an evaluation stands in the schema, and whether it is one per chunk."""
    name = evaluation.name
    if evaluation.evaluator_kind != "judge":
        return _AT.get(name, name), False
    if "ratings" in evaluation.metadata or name == "chunk_relevance":
        return f"retrieval/llm_judged/{name}", True
    if name in _AT:
        return _AT[name], False
    is_score = isinstance(evaluation.value, float)
    return (name, False) if is_score else (f"response/llm_judged/{name}", False)


def contributions(evaluation: Evaluation) -> dict[str, float]:
    """Return what a rated row adds to the aggregates: each is the mean over the rated rows."""
    value = evaluation.value
    base, per_chunk = base_of(evaluation)
    if isinstance(value, str):
        if evaluation.evaluator_kind == "judge" and value in ("yes", "no"):
            path = _AVERAGES.get(base, f"{base}/rating/percentage")
            return {path: 1.0 if value == "yes" else 0.0}
        return {f"{evaluation.name}/{value}/percentage": 1.0}
    if value is None:
        return {}
    if per_chunk:
        return {f"{base}/precision/average": float(value)}
    return {_AVERAGES.get(base, f"{base}/average"): float(value)}


# -- JSON ---------------------------------------------------------------------------------------


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
        "evaluations": [_sparse(each) for each in row.evaluations.values()],
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


def evaluation_to(evaluation: Evaluation) -> dict[str, Any]:
    """Write an evaluation as JSON has it."""
    return _sparse(evaluation)


def evaluation_from(said: dict[str, Any]) -> Evaluation:
    """Read what `evaluation_to` wrote."""
    for name, kind in (("usage", Usage), ("error", Failure)):
        if name in said:
            said[name] = kind(**said[name])
    return Evaluation(**said)


def texts(row: Row) -> Iterator[tuple[str, str]]:
    """Yield what a person wants to read of a row: column and text."""
    record = row.record
    if record.request is not None:
        query, history = split_request(record.request)
        if history:
            yield "earlier turns", "\n".join(f"{role}: {text}" for role, text in history)
        yield "request", query
    for name in ("response", "expected_response", "expected_facts", "value"):
        value = getattr(record, name)
        if value is None or (name == "value" and value == record.response):
            continue
        yield name, as_text(value)
