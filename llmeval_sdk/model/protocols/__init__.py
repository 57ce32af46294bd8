"""The verbs: what an evaluator, a judge model and an exporter must be able to do.

These are the extension points for other packages. To write an exporter, begin with `Exporter` or
`BaseExporter`; a judge, with `Judge`; a free evaluator, with `Heuristic`; a way to reach a judge
model, with `LLM`. ``examples/my_own_exporter.py`` and ``examples/evaluator_package.py`` show two of
them.
"""

from llmeval_sdk.model.protocols._decisions import DecisionModel, answer_by, further_place
from llmeval_sdk.model.protocols._evaluators import (
    LLM,
    Evaluator,
    Heuristic,
    Judge,
    Learner,
    check_judge,
    further_request,
    refuse_in_loop,
)
from llmeval_sdk.model.protocols._exporters import (
    BaseExporter,
    ContextBridge,
    Exporter,
    LiveSpans,
    Redaction,
    Services,
    complete_exporter,
)


__all__ = [
    "LLM",
    "BaseExporter",
    "ContextBridge",
    "DecisionModel",
    "Evaluator",
    "Exporter",
    "Heuristic",
    "Judge",
    "Learner",
    "LiveSpans",
    "Redaction",
    "Services",
    "answer_by",
    "check_judge",
    "complete_exporter",
    "further_place",
    "further_request",
    "refuse_in_loop",
]
