"""One evaluated row, and where the agent-evaluation schema has the output of each evaluator.

The output that an evaluator declares decides its columns and metrics, so they exist for rows
without a value too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, overload

from llmeval_sdk import registry
from llmeval_sdk.evaluation.scoring import answer_of
from llmeval_sdk.judges.prompt import as_text, split_request
from llmeval_sdk.model import JUDGING, Evaluation, Failure, Record
from llmeval_sdk.model.protocols import Heuristic, Judge
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

    @property
    def answer(self) -> Literal["given", "abstained", "lost"]:
        """Whether there is an answer, the app said that it gives none, or it got lost."""
        return answer_of(self.record)


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


Gives = Literal["number", "count", "flag", "word", "yes_no", "any"]
_DECLARED: dict[Any, Gives] = {"score": "number", "count": "count", "yes_no": "yes_no"}
_ANNOTATED: dict[str, Gives] = {"float": "number", "int": "number", "bool": "flag", "str": "word"}


class Output(NamedTuple):
    """What one evaluator gives. ``any`` is known only once there are values."""

    is_judge: bool = False
    per_chunk: bool = False
    """Whether it rates chunks, or tool calls, one by one."""
    gives: Gives = "any"
    words: tuple[str, ...] = ()
    """The categories it may give; empty where they are not known."""


_RATED_APART = ("chunk", "step")
"""What judges rate one by one, so that their metadata has a list of ratings."""
_UNKNOWN = Output()
_OF_VALUES: dict[type, Gives] = {float: "number", bool: "flag", str: "word"}
_OF_HEURISTICS = {kind: Output(gives=gives) for kind, gives in _OF_VALUES.items()}


def output_of(evaluator: Heuristic | Judge) -> Output:
    """Read what an evaluator declares as its ``output``, or its function as what it returns."""
    is_judge = evaluator.kind == "judge"
    per_chunk = is_judge and getattr(evaluator, "per", "answer") in _RATED_APART
    declared = getattr(evaluator, "output", None)
    if isinstance(declared, (tuple, list)):
        return Output(is_judge, per_chunk, "word", tuple(declared))
    gives = _DECLARED.get(declared)
    if gives is None:
        gives = _returned(evaluator)
        if is_judge and gives == "flag":
            gives = "yes_no"  # a judge's bool is a rating
        if gives == "any" and not is_judge and evaluator.name in registry.heuristics():
            gives = "number"
    return Output(is_judge, per_chunk, gives)


@cache
def whole_numbers() -> frozenset[str]:
    """Return the names of the built-in evaluators that count something."""
    counting = (registry.evaluator(name) for name in registry.heuristics())
    return frozenset(each.name for each in counting if output_of(each).gives == "count")


def _returned(evaluator: Any) -> Gives:
    function: Callable[..., Any] | None = getattr(evaluator, "function", None)
    try:
        annotation = inspect.signature(function or evaluator.evaluate).return_annotation
    except (TypeError, ValueError):
        return "any"
    return _ANNOTATED.get(getattr(annotation, "__name__", str(annotation)), "any")


def _output_seen(evaluation: Evaluation) -> Output:
    """Tell from one evaluation what its evaluator gives, where nothing was declared."""
    value = evaluation.value
    if evaluation.evaluator_kind not in JUDGING:
        return _OF_HEURISTICS.get(type(value), _UNKNOWN)
    per_chunk = "ratings" in evaluation.metadata or _rates_chunks(evaluation.name)
    gives = "yes_no" if value in ("yes", "no") else _OF_VALUES.get(type(value), "any")
    return Output(True, per_chunk, gives)


def _rates_chunks(name: str) -> bool:
    """Say whether a judge of this package or the app rates chunks; where it failed none shows."""
    return getattr(registry.known(name), "per", "answer") in _RATED_APART


def outputs_from_plain(saved: object) -> dict[str, Output]:
    """Read what a saved report says of its evaluators' outputs."""
    if not isinstance(saved, Mapping):
        return {}
    return {
        name: Output(is_judge, per_chunk, gives, tuple(words))
        for name, (is_judge, per_chunk, gives, words) in saved.items()
    }


def seen_in(rows: Iterable[Row]) -> dict[str, Output]:
    """Tell the outputs from the evaluations of rows: of a report whose file does not say them."""
    outputs: dict[str, Output] = {}
    for row in rows:
        for name, evaluation in row.evaluations.items():
            if outputs.get(name, _UNKNOWN).gives == "any":
                outputs[name] = _output_seen(evaluation)
    return outputs


CHUNK_COLUMNS = ("ratings", "rationales", "error_messages")


_ALSO_CALLED = {
    "retrieval/llm_judged/chunk_relevance/precision": (
        "retrieval/llm_judged/chunk_relevance_precision"
    ),
    "agent/total_input_token_count": "agent/input_token_count",
    "agent/total_output_token_count": "agent/output_token_count",
}
"""Columns that the framework's document and the document of its schema call by different names."""


_METRICS_ALSO_CALLED = {
    alias: metric
    for column, also in _ALSO_CALLED.items()
    for metric in (f"{also if column.startswith('agent/') else column}/average",)
    for alias in (also, column, f"{also}/average", f"{column}/average")
    if alias != metric
}
"""Other names of the metrics of these columns, with or without the end of a metric."""


def metric_called(path: str) -> str:
    """Return the metric that a path names, which may be one of its other names."""
    return _METRICS_ALSO_CALLED.get(path, path)


class ReportMetrics(dict[str, float]):
    """Metrics by path. Those that two documents call by different names are found by both."""

    def __missing__(self, path: str) -> float:
        if path not in self:
            raise KeyError(path)
        return self[metric_called(path)]

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and super().__contains__(metric_called(path))

    @overload  # type: ignore[override]
    def get(self, path: str, default: None = None, /) -> float | None: ...

    @overload
    def get(self, path: str, default: float, /) -> float: ...

    def get(self, path: str, default: float | None = None, /) -> float | None:
        """Return a metric by any of its names."""
        return super().get(metric_called(path), default)


def columns(name: str, output: Output) -> dict[str, str]:
    """Return the columns of an evaluator in a table of rows, and what each holds.

    They hold a ``number``, ``count``, ``flag``, ``word``, ``list`` or ``any``.
    """
    own = _own_columns(name, output)
    return own | {_ALSO_CALLED[column]: own[column] for column in own if column in _ALSO_CALLED}


def _own_columns(name: str, output: Output) -> dict[str, str]:
    base = _base(name, output)
    value = "word" if output.gives == "yes_no" else output.gives
    if output.per_chunk:
        lists = {f"{base}/{key}": "list" for key in CHUNK_COLUMNS}
        return {**lists, f"{base}/precision": "number"}
    if not output.is_judge:
        return {base: value}
    rated = base if output.gives == "number" else f"{base}/rating"
    return {rated: value, f"{base}/rationale": "word", f"{base}/error_message": "word"}


def probability_column(name: str, output: Output) -> str:
    """Return the column that says how probably an evaluation is good."""
    return f"{_base(name, output)}/probability"


def cells(evaluation: Evaluation, output: Output) -> dict[str, Any]:
    """Return what an evaluation says, by the columns of its evaluator."""
    names = _own_columns(evaluation.name, output)
    metadata, error = evaluation.metadata, evaluation.error
    if output.per_chunk:
        of_chunks = [metadata.get(key) for key in CHUNK_COLUMNS]
        own = dict(zip(names, (*of_chunks, evaluation.value), strict=True))
    else:
        why = error and (error.message or error.type)
        values = [evaluation.value, evaluation.explanation, why]
        own = dict(zip(names, values, strict=False))  # a heuristic has the value alone
    return own | {_ALSO_CALLED[column]: own[column] for column in own if column in _ALSO_CALLED}


PROBABILITY = "/probability/average"
"""How the metric ends that is the mean probability of a good outcome, over the rows that have
one."""


def contributions(evaluation: Evaluation) -> dict[str, float]:
    """Return the values of a row by metric; a metric is the mean of these values of all rows."""
    value = evaluation.value
    if value is None:
        return {}
    output = _output_seen(evaluation)
    if output.gives == "word":
        amounts = {f"{evaluation.name}/{value}/percentage": 1.0}
    else:
        amount = float(value == "yes") if isinstance(value, str) else float(value)
        amounts = {_metric(evaluation.name, output): amount}
    if evaluation.probability is not None:
        amounts[f"{_base(evaluation.name, output)}{PROBABILITY}"] = evaluation.probability
    return amounts


def metric_paths(name: str, output: Output) -> tuple[str, ...]:
    """Return the metrics that an evaluator can have; ``*`` stands for any one category."""
    if output.per_chunk or output.gives in ("number", "count", "flag", "yes_no"):
        return (_metric(name, output),)
    rating = _metric(name, output._replace(gives="yes_no"))
    words = tuple(f"{name}/{word}/percentage" for word in output.words or ("*",))
    if output.gives == "word":
        return (*words, rating) if output.is_judge and "yes" in output.words else words
    averages = (
        _metric(name, output._replace(gives="number")),
        _metric(name, output._replace(gives="flag")),
    )
    return tuple(dict.fromkeys((*((rating,) * output.is_judge), *averages, *words)))


@lru_cache(1_024)  # asked for once per evaluation of every row
def _metric(name: str, output: Output) -> str:
    declared = _declared(name, "metric_path")
    if declared is not None:
        return declared
    base = _base(name, output)
    if output.per_chunk:
        return f"{base}/precision/average"
    is_rating = output.is_judge and output.gives == "yes_no"
    return f"{base}/rating/percentage" if is_rating else f"{base}/average"


def _base(name: str, output: Output) -> str:
    """Return where an evaluator stands: judged ratings and chunks have branches of the schema."""
    declared = _declared(name, "report_path")
    if declared is not None:
        return declared
    if output.per_chunk:
        return f"retrieval/llm_judged/{name}"
    if not output.is_judge or output.gives == "number":
        return name
    return f"response/llm_judged/{name}"


def _declared(name: str, attribute: str) -> str | None:
    """Return a path that the evaluator itself declares."""
    path: str | None = getattr(registry.known(name), attribute, None)
    return path
