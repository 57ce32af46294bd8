"""Evaluates Arrow tables one batch at a time: for engines that bring their own way of reading."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from llmeval_sdk.errors import ConfigurationError, DataError, missing_extra
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.model import Evaluation
from llmeval_sdk.offline.data.source import Data, Located
from llmeval_sdk.offline.report.row import Output, Row, cells, columns
from llmeval_sdk.offline.run.rows import BadRows, good_rows
from llmeval_sdk.offline.run.work import Work


class BatchEvaluator:
    """A function of one Arrow table that returns another, with a row for each of its rows.

    Spark's ``mapInArrow``, Daft, Dask, DuckDB and Ray Data take such a function. It can be pickled,
    and loads its evaluators where it is called for the first time. Judges run inside of the call,
    several at a time; verdicts of earlier runs on the same machine are used again.

    The table that comes back has ``request_id``; the columns of the evaluators, named as in
    `Report.to_pandas`; ``errors``, a list of what failed on a row; and ``problem``, which says why
    a row could not be read. Such a row has no values, and the others do not suffer from it.

    Args:
        evaluators: names or objects.
        llm: the judge model, as in `evaluate`.
        concurrency: how many judgements run at a time within a call.
        budget: the most that the judges may use, in each process by itself.
        cache: reuse verdicts of earlier runs if judge, model and inputs are the same.
        prices: prices in USD per million input and output tokens, by model.
        decisions: the decision model, as in `evaluate`.
        thresholds: of decisions, by the name of the judge.

    Raises:
        ConfigurationError: an evaluator is unknown, or a judge has no model.
        MissingExtraError: pyarrow is not installed.

    Examples:
        >>> evaluate = BatchEvaluator(["context_relevance"])
        >>> evaluate.schema.names
        ['request_id', 'context_relevance', 'errors', 'problem']
    """

    def __init__(
        self,
        evaluators: Sequence[object],
        *,
        llm: object = None,
        concurrency: int = 8,
        budget: Budget | None = None,
        cache: bool = True,
        prices: Mapping[str, tuple[float, ...]] | None = None,
        decisions: object = None,
        thresholds: Mapping[str, float] | None = None,
    ) -> None:
        if isinstance(evaluators, str) or not evaluators:
            raise ConfigurationError(f"evaluators must be a list of some: [{evaluators!r}]")
        self._work = Work(
            evaluators=tuple(evaluators),
            llm=llm,
            concurrency=concurrency,
            budget=budget,
            cache=cache,
            prices=prices,
            decisions=decisions,
            thresholds=thresholds,
        )
        self._columns = ArrowColumns(self._work.chosen.outputs)
        _pyarrow()

    @property
    def schema(self) -> Any:
        """The schema of every table that comes back, as a ``pyarrow.Schema``."""
        pa = _pyarrow()
        return pa.schema([*self._columns.fields(), pa.field("problem", pa.string())])

    def __call__(self, table: Any) -> Any:
        """Evaluate a ``pyarrow.Table`` or ``RecordBatch``; return a table of as many rows."""
        problems: list[str | None] = [None] * table.num_rows
        bad = _NotedBad(problems)
        located = (
            Located(number, f"row {number}", row) for number, row in enumerate(table.to_pylist(), 1)
        )
        work = self._work
        items = good_rows(
            Data("", table.num_rows, located),
            work.chosen,
            bad,
            answered=True,
            digests=False,
            unique=False,
            settings=work.settings,
        )
        rows: list[Row | None] = [None] * table.num_rows

        def emit(row: Row) -> None:
            rows[row.number - 1] = row

        work.fresh().run(items, emit)
        ids, *values = self._columns.values(rows)
        if "request_id" in table.schema.names:  # a row that could not be read has one too
            pairs = zip(ids, table.column("request_id").to_pylist(), strict=True)
            ids = [read if read or raw is None else text_of(raw) for read, raw in pairs]
        return arrow_table([ids, *values, problems], self.schema)


class _NotedBad(BadRows):
    """Notes what is wrong with each row that cannot be read."""

    def __init__(self, problems: list[str | None]) -> None:
        super().__init__(skip=True)
        self._problems = problems

    def add(self, error: DataError, number: int, *, leave_out: bool = False) -> None:
        """Note the problem of a row."""
        self._problems[number - 1] = text_of(error)


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        raise missing_extra("evaluating Arrow tables", "pandas", "pyarrow") from None
    return pa


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


def _texts(value: Iterable[object]) -> list[str | None]:
    return [None if item is None else text_of(item) for item in value]


_FITTING: dict[str, Callable[[Any], Any]] = {
    "number": _number,
    "count": _whole,
    "flag": _flag,
    "word": text_of,
    "list": _texts,
    "any": lambda value: text_of(value if isinstance(value, str) else json.dumps(value)),
}
