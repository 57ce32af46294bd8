"""The same evaluators over a data set: rows -> Records -> Report."""

from llmeval_sdk.offline._aggregate import Aggregate
from llmeval_sdk.offline._evaluate import Interrupted, evaluate
from llmeval_sdk.offline._report import Report
from llmeval_sdk.offline._row import Row
from llmeval_sdk.offline._rows import record_from
from llmeval_sdk.offline._work import Work


__all__ = ["Aggregate", "Interrupted", "Report", "Row", "Work", "evaluate", "record_from"]
