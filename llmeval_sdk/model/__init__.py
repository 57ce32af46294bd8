"""The nouns: frozen values that every other room passes around.

``None`` means absent; an empty tuple is present and empty. Times are nanoseconds since the Unix
epoch unless a name says seconds. Ids are W3C hex: 32 characters for a trace, 16 for a span.
"""

from llmeval_sdk.model._completions import Completion, Message, ModelCall
from llmeval_sdk.model._delivered import Batch, EvaluationEvent, NotRun, SpanData, Target
from llmeval_sdk.model._nouns import (
    JUDGE_TAG,
    JUDGING,
    NOTHING,
    STAND_IN,
    Chunk,
    Evaluation,
    EvaluatorKind,
    Extraction,
    Failure,
    Prompt,
    Record,
    Request,
    Score,
    SpanKind,
    Step,
    Unit,
    Usage,
    is_stand_in,
    tier_name,
)
from llmeval_sdk.model._questions import Answer, Decision, Option, Question


__all__ = [
    "JUDGE_TAG",
    "JUDGING",
    "NOTHING",
    "STAND_IN",
    "Answer",
    "Batch",
    "Chunk",
    "Completion",
    "Decision",
    "Evaluation",
    "EvaluationEvent",
    "EvaluatorKind",
    "Extraction",
    "Failure",
    "Message",
    "ModelCall",
    "NotRun",
    "Option",
    "Prompt",
    "Question",
    "Record",
    "Request",
    "Score",
    "SpanData",
    "SpanKind",
    "Step",
    "Target",
    "Unit",
    "Usage",
    "is_stand_in",
    "tier_name",
]
