"""Evaluated rows as Arrow tables: a column for each value that an evaluator gives."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from llmeval_sdk.model import Evaluation
from llmeval_sdk.offline.report.outputs import Output, cells, columns
from llmeval_sdk.offline.report.row import Row


class ArrowColumns:
    """The columns of some evaluators: their names, their types, and what rows have in them.

    Every table has the same columns, whatever its rows hold, because engines want to know them
    before the first row is there. What does not fit into its column is told in ``errors``.

    Args:
        outputs: what each evaluator gives, by its name.
    """

    def __init__(self, outputs: Mapping[str, Output]) -> None:
        self._outputs = outputs
        self._kinds: dict[str, str] = {}
        for name, output in outputs.items():
            self._kinds |= columns(name, output)

    def fields(self) -> list[Any]:
        """Return the fields of the schema: ``request_id``, the evaluators' columns, ``errors``."""
        import pyarrow as pa

        types = {
            "number": pa.float64(),
            "count": pa.int64(),
            "flag": pa.bool_(),
            "list": pa.list_(pa.string()),
        }
        own = [pa.field(name, types.get(kind, pa.string())) for name, kind in self._kinds.items()]
        errors = pa.field("errors", pa.list_(pa.string()))
        return [pa.field("request_id", pa.string()), *own, errors]

    def values(self, rows: Sequence[Row | None]) -> list[list[Any]]:
        """Return the values of rows by column, in the order of `fields`; ``None`` has none."""
        places = {name: place for place, name in enumerate(self._kinds)}
        kinds = list(self._kinds.values())
        held: list[list[Any]] = [[None] * len(rows) for _ in kinds]
        ids: list[str | None] = [None] * len(rows)
        errors: list[list[str] | None] = [None] * len(rows)
        for at, row in enumerate(rows):
            if row is None:
                continue
            ids[at] = None if row.record.request_id is None else text_of(row.record.request_id)
            problems = [f"{row.error.type}: {row.error.message}"] if row.error else []
            for name, evaluation in row.evaluations.items():
                if evaluation.error is not None:
                    problems.append(_failure(name, evaluation))
                for column, value in cells(evaluation, self._outputs[name]).items():
                    if value is None:
                        continue
                    place = places[column]
                    try:
                        held[place][at] = _FITTING[kinds[place]](value)
                    except (TypeError, ValueError):
                        problems.append(f"{column}: {value!r} is not of the type that is declared")
            if problems:
                errors[at] = [text_of(problem) for problem in problems]
        return [ids, *held, errors]


def arrow_table(columns: Sequence[Sequence[Any]], schema: Any) -> Any:
    """Return a table of columns of Python values."""
    import pyarrow as pa

    pairs = zip(columns, schema, strict=True)
    arrays = [pa.array(list(values), field.type) for values, field in pairs]
    return pa.Table.from_arrays(arrays, schema=schema)


def text_of(value: Any) -> str:
    """Return a text that Arrow takes: without halves of a character, which JSON may bring."""
    text = value if isinstance(value, str) else str(value)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _failure(name: str, evaluation: Evaluation) -> str:
    error = evaluation.error
    assert error is not None
    return f"{name}: {error.type}" + (f": {error.message}" if error.message else "")


def _whole(value: Any) -> int:
    if value != int(value):
        raise ValueError(value)
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, str):
        raise TypeError(value)
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


def _texts(value: Iterable[Any]) -> list[str | None]:
    return [None if item is None else text_of(item) for item in value]


_FITTING: dict[str, Callable[[Any], Any]] = {
    "number": _number,
    "count": _whole,
    "flag": _flag,
    "word": text_of,
    "list": _texts,
    "any": lambda value: text_of(value if isinstance(value, str) else json.dumps(value)),
}
