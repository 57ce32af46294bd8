"""A report as a pandas DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llmeval_sdk.errors import missing_extra
from llmeval_sdk.offline.results.paths import outcomes


if TYPE_CHECKING:
    from llmeval_sdk.offline.report.report import Report


_COLUMNS = ("request_id", "request", "response", "expected_response", "expected_facts", "value")


def frame(report: Report) -> Any:
    """See `Report.to_pandas`; a column stands only where a row has it."""
    try:
        import pandas as pd
    except ImportError:
        raise missing_extra("to_pandas()", "pandas", "pandas") from None
    rows = []
    for row in report.rows:
        record = row.record
        said: dict[str, Any] = {
            name: value for name in _COLUMNS if (value := getattr(record, name)) is not None
        }
        if record.retrieved_context is not None:
            said["retrieved_context"] = [
                {"content": chunk.content, "doc_uri": chunk.doc_uri}
                for chunk in record.retrieved_context
            ]
        if row.error is not None:
            said["error"] = f"{row.error.type}: {row.error.message}"
        for evaluation in row.evaluations.values():
            said.update(outcomes(evaluation))
        rows.append(said)
    found = pd.DataFrame(rows, index=pd.Index([row.number for row in report.rows], name="row"))
    return found.dropna(axis="columns", how="all")
