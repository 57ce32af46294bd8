"""Makes the Record that evaluators see of finished spans, whoever made the spans.

The same code serves live requests, spans of other libraries, traces in a data set, requests read
back from the store and apps that run offline. A span that ends leaves something to the evaluated
span above it (`left_by`): the documents of a retrieval, the tokens of a model call, what was
annotated for the request. `record_of` makes a Record of a span and of what was left to it.
"""

from llmeval_sdk.model.records._record import (
    ANSWERED,
    CONTEXT_ARGUMENTS,
    EFFECT_TAG,
    OWNERS,
    PROMPTED,
    Conversation,
    FinishedSpan,
    Left,
    Retrieved,
    Spent,
    chunks_of_arguments,
    context_of,
    early_record,
    evidence_of,
    gathered_below,
    left_by,
    record_of,
    request_of,
    spent_by,
    steps_above,
    tool_call,
    with_chunks,
    with_steps,
)


__all__ = [
    "ANSWERED",
    "CONTEXT_ARGUMENTS",
    "EFFECT_TAG",
    "OWNERS",
    "PROMPTED",
    "Conversation",
    "FinishedSpan",
    "Left",
    "Retrieved",
    "Spent",
    "chunks_of_arguments",
    "context_of",
    "early_record",
    "evidence_of",
    "gathered_below",
    "left_by",
    "record_of",
    "request_of",
    "spent_by",
    "steps_above",
    "tool_call",
    "with_chunks",
    "with_steps",
]  # fmt: skip
