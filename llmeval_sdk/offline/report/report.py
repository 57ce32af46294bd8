"""The `Report` that `evaluate()` returns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmeval_sdk.errors import missing_extra
from llmeval_sdk.model import values
from llmeval_sdk.offline.report.aggregate import EvaluatorTally, ReportContents, directions, run_of
from llmeval_sdk.offline.report.gate import MIN_RATED, ReportGate, above, below
from llmeval_sdk.offline.report.row import (
    Output,
    Row,
    cells,
    columns,
    outputs_from_plain,
    probability_column,
    seen_in,
)
from llmeval_sdk.offline.report.storage import load_file, load_folder, write_file


if TYPE_CHECKING:
    from llmeval_sdk.offline.report.compare import Comparison


@dataclass(frozen=True, slots=True)
class Report(ReportContents):
    """The result of `evaluate`: the rows in the order of the data, and aggregates over them.

    Args:
        rows: Each row has its ``record`` and its ``evaluations`` by name. Many rows are kept in a
            file and read when they are asked for.
        aggregate: The sums that `metrics` is made of; rows without a value are not part of them.
        experiment: The name of the run.
        evaluators: The names of the evaluators that ran.
        skipped: How many bad rows were left out.
        problems: What was wrong with the first of them.
        delivery: The account of each exporter.
        outputs: What kind of value each evaluator gives, even if it gave none.
        run: The data set, the judge model and the time of the run.
    """

    def __repr__(self) -> str:
        return f"<Report of {len(self.rows):,} rows, {len(self.metrics)} metrics>"

    def _repr_html_(self) -> str:
        from llmeval_sdk.offline.report.html import notebook

        return notebook(self)

    def to_pandas(self) -> Any:
        """Return a DataFrame with one row per evaluated row and the schema's paths as columns."""
        return _frame(self)

    def to_markdown(
        self,
        *,
        worst: int = 5,
        at_least: Mapping[str, float] | None = None,
        compared: Comparison | None = None,
        min_rated: float = MIN_RATED,
        at_most: Mapping[str, float] | None = None,
    ) -> str:
        """Return the outcome, the metrics and the worst rows for the comment of a pull request."""
        from llmeval_sdk.offline.report.ci import markdown

        return markdown(self, worst=worst, gate=_gate(at_least, compared, min_rated, at_most))

    def to_html(
        self,
        *,
        worst: int = 50,
        at_least: Mapping[str, float] | None = None,
        compared: Comparison | None = None,
        min_rated: float = MIN_RATED,
        at_most: Mapping[str, float] | None = None,
    ) -> str:
        """Return one self-contained HTML page with the outcome, the metrics and the worst rows.

        With ``at_least``, ``at_most`` or ``compared``, the top of the page says whether the gate
        passed.
        """
        from llmeval_sdk.offline.report.html import page

        return page(self, worst=worst, gate=_gate(at_least, compared, min_rated, at_most))

    def to_junit(
        self,
        at_least: Mapping[str, float] | None = None,
        *,
        compared: Comparison | None = None,
        min_rated: float = MIN_RATED,
        at_most: Mapping[str, float] | None = None,
    ) -> str:
        """Return JUnit XML with a case for each bound, each compared metric and each row."""
        from llmeval_sdk.offline.report.ci import junit

        return junit(self, _gate(at_least, compared, min_rated, at_most))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report to a file of JSON lines, either completely or not at all.

        Raises:
            ConfigurationError: the file cannot be written.
        """
        write_file(Path(path), self._about(), iter(self.rows), self.aggregate)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Report:
        """Read a report that `save` or a run wrote; a row is read when it is accessed.

        Raises:
            ConfigurationError: the file cannot be read.
            DataError: the file is not a report.
        """
        place = Path(path)
        header: Mapping[str, Any]
        rows: Sequence[Row]
        if place.is_dir():  # a run on Ray has a file for each block of the data
            header, rows, aggregate = load_folder(place)
        else:
            saved, rows, aggregate = load_file(place)
            header = saved.header
        for name, better in dict(header.get(values.BETTER) or {}).items():
            values.learn(str(name), better)
        return cls(
            rows,
            aggregate,
            str(header.get("experiment", "")),
            tuple(header.get("evaluators", ())),
            int(header.get("skipped", 0)),
            tuple(header.get("problems", ())),
            outputs=outputs_from_plain(header.get("outputs")) or seen_in(rows),
            run=run_of(header),
        )

    def compare(self, baseline: Report, *, seed: int = 0) -> Comparison:
        """Compare with an earlier report of the same rows.

        Rows are paired by ``request_id``, or by their request if they have no id. The result has
        each metric's change with its 95 % interval, and the rows that got worse.

        Raises:
            DataError: the two reports have no row in common.
            MissingExtraError: numpy is not installed.
        """
        from llmeval_sdk.offline.report.compare import compare

        return compare(self, baseline, seed=seed)

    def below(
        self, at_least: Mapping[str, float], *, min_rated: float = MIN_RATED
    ) -> dict[str, float | None]:
        """Return the metrics that miss their bound, with ``None`` for a metric without a value.

        A metric also counts as without a value if its evaluator failed so often that it rated less
        than the share ``min_rated`` (0..1) of the rows with its inputs, because the few remaining
        rows do not represent the data.

        Raises:
            ConfigurationError: no evaluator of this report has a metric with this path.
        """
        return below(self, at_least, min_rated)

    def above(
        self, at_most: Mapping[str, float], *, min_rated: float = MIN_RATED
    ) -> dict[str, float | None]:
        """Return the metrics that are above their bound, such as ``no_answer/percentage``.

        ``None`` stands for a metric without a value, as `below` says.

        Raises:
            ConfigurationError: no evaluator of this report has a metric with this path.
        """
        return above(self, at_most, min_rated)

    def _about(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment,
            "evaluators": self.evaluators,
            "outputs": self.outputs,
            "skipped": self.skipped,
            "problems": self.problems,
            **self.run._asdict(),
            **directions(self.evaluators),
        }


def _gate(
    at_least: Mapping[str, float] | None,
    compared: Comparison | None,
    min_rated: float,
    at_most: Mapping[str, float] | None,
) -> ReportGate:
    return ReportGate(at_least or {}, compared, min_rated, at_most or {})


_COLUMNS = ("request_id", "request", "response", "expected_response", "expected_facts", "value")
_TYPES = {"number": "float64", "count": "Int64", "flag": "boolean", "word": "string"}


def _frame(report: ReportContents) -> Any:
    """See `Report.to_pandas`."""
    try:
        import pandas as pd
    except ImportError:
        raise missing_extra("to_pandas()", "pandas", "pandas") from None
    tallies = report.aggregate.tallies
    outputs = {
        name: _settled(name, report.outputs.get(name, Output()), tally)
        for name, tally in tallies.items()
    }
    rows = []
    for row in report.rows:
        record = row.record
        cells_of_row: dict[str, Any] = {
            name: value for name in _COLUMNS if (value := getattr(record, name)) is not None
        }
        if record.retrieved_context is not None:
            cells_of_row["retrieved_context"] = [
                {"content": chunk.content, "doc_uri": chunk.doc_uri}
                for chunk in record.retrieved_context
            ]
        cells_of_row["error"] = (
            None if row.error is None else f"{row.error.type}: {row.error.message}"
        )
        for name, evaluation in row.evaluations.items():
            cells_of_row.update(cells(evaluation, outputs[name]))
            if evaluation.probability is not None:
                cells_of_row[probability_column(name, outputs[name])] = evaluation.probability
        rows.append(cells_of_row)
    index = pd.Index([row.number for row in report.rows], name="row")
    table = pd.DataFrame(rows, index=index)
    holds = {"error": "word"}
    for name, output in outputs.items():
        holds |= columns(name, output)
        probability = probability_column(name, output)
        if probability in table:  # only decision models say it
            holds[probability] = "number"
    table = table.reindex(columns=[*(each for each in table if each not in holds), *holds])
    for column, kind in holds.items():
        table[column] = _typed(table[column], kind)
    return table


def _settled(name: str, output: Output, tally: EvaluatorTally) -> Output:
    """Say what an evaluator gave that declares nothing; a judge without any value gives words."""
    if output.gives != "any" or output.per_chunk:
        return output
    if tally.low is not None:
        return output._replace(gives="number")
    is_word = output.is_judge or any(path.startswith(f"{name}/") for path in tally.sums)
    return output._replace(gives="word") if is_word else output


def _typed(column: Any, kind: str) -> Any:
    """Give a column its type, whatever is in it; one that does not hold what it should stays."""
    try:
        return column.astype(_TYPES[kind]) if kind in _TYPES else column.astype(object)
    except (TypeError, ValueError):
        return column.astype(object)
