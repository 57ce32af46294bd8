"""The same evaluators over a data set: rows -> Records -> Report."""

from llmeval_sdk.offline._evaluate import evaluate
from llmeval_sdk.offline._report import Report, Row
from llmeval_sdk.offline._rows import record_from


__all__ = ["Report", "Row", "evaluate", "record_from"]
