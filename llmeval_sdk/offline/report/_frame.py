"""A report as a pandas DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llmeval_sdk.errors import missing_extra
from llmeval_sdk.offline.report.aggregate import EvaluatorTally
from llmeval_sdk.offline.report.outputs import Output, cells, columns, probability_column


if TYPE_CHECKING:
    from llmeval_sdk.offline.report.contents import ReportContents


_COLUMNS = ("request_id", "request", "response", "expected_response", "expected_facts", "value")
_TYPES = {"number": "float64", "count": "Int64", "flag": "boolean", "word": "string"}


def frame(report: ReportContents) -> Any:
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
