"""The same evaluators over a data set: rows -> Records -> Report.

`data` reads rows of any kind, `run` evaluates them, and `report` sums the results up, keeps them
and shows them to people and to CI. `agreement` says how far judges agree with people.
"""

from llmeval_sdk.offline._evaluate import Interrupted, check_bounds, evaluate
from llmeval_sdk.offline.arrow import BatchEvaluator
from llmeval_sdk.offline.cost import estimate_cost
from llmeval_sdk.offline.data.record import record_from
from llmeval_sdk.offline.golden import GoldenSet, golden_sets
from llmeval_sdk.offline.report.aggregate import Aggregate
from llmeval_sdk.offline.report.report import Report
from llmeval_sdk.offline.report.row import Row
from llmeval_sdk.offline.run.work import Work


__all__ = [
    "Aggregate",
    "BatchEvaluator",
    "GoldenSet",
    "Interrupted",
    "Report",
    "Row",
    "Work",
    "check_bounds",
    "estimate_cost",
    "evaluate",
    "golden_sets",
    "record_from",
]
