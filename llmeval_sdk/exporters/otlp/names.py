"""Every name that is sent over OTLP.

There are three families: OpenTelemetry's conventions for generative AI (``gen_ai.*``), the
OpenInference names beside them, by which Phoenix, MLflow and Langfuse decide what a span is, and
our own names. ``make conventions`` compares all of them with the newest conventions.
"""

from __future__ import annotations

from typing import Final

from llmeval_sdk import model
from llmeval_sdk.model import EvaluatorKind, SpanKind


SCOPE: Final = "llmeval_sdk"
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"
"""The schema that the names were compared with. It only refers to those of generative AI, which
have a registry of their own since 1.42."""

INTERNAL: Final = 1
CLIENT: Final = 3

# -- spans: gen_ai --------------------------------------------------------------------------------

OPERATION: Final = "gen_ai.operation.name"
OPERATIONS: dict[SpanKind, str] = {
    "workflow": "invoke_workflow",
    "agent": "invoke_agent",
    "retrieval": "retrieval",
    "tool": "execute_tool",
    "embedding": "embeddings",
    "llm": "chat",
}
"""A task has no operation name: the conventions have none for it."""
WIRE_KINDS: dict[SpanKind, int] = {"retrieval": CLIENT, "embedding": CLIENT, "llm": CLIENT}
"""The others are INTERNAL."""
NAME_OF: dict[SpanKind, str] = {
    "workflow": "gen_ai.workflow.name",
    "agent": "gen_ai.agent.name",
    "tool": "gen_ai.tool.name",
}
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_write.input_tokens"
CACHE_CREATION_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
"""The former name of `CACHE_WRITE_TOKENS`; Phoenix and Langfuse read no other one."""
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
FIRST_CHUNK_SECONDS: Final = "gen_ai.response.time_to_first_chunk"
MEASURED = {
    "cache_read_input_tokens": (CACHE_READ_TOKENS,),
    "cache_write_input_tokens": (CACHE_WRITE_TOKENS, CACHE_CREATION_TOKENS),
    "reasoning_output_tokens": (REASONING_TOKENS,),
    "time_to_first_token": (FIRST_CHUNK_SECONDS,),
}
"""What the conventions call some of a model call's metrics."""
PROMPT_NAME: Final = "gen_ai.prompt.name"
PROMPT_VERSION: Final = "gen_ai.prompt.version"
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
DATA_SOURCE: Final = "gen_ai.data_source.id"
TOP_K: Final = "gen_ai.retrieval.top_k"
QUERY: Final = "gen_ai.retrieval.query.text"
DOCUMENTS: Final = "gen_ai.retrieval.documents"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
CONVERSATION: Final = "gen_ai.conversation.id"
ERROR_TYPE: Final = "error.type"
EXCEPTION: Final = "exception"
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_MESSAGE: Final = "exception.message"

# -- spans: the OpenInference twin ----------------------------------------------------------------

OI_KIND: Final = "openinference.span.kind"
OI_KINDS: dict[SpanKind, str] = {
    "workflow": "CHAIN",
    "task": "CHAIN",
    "retrieval": "RETRIEVER",
    "llm": "LLM",
    "tool": "TOOL",
    "agent": "AGENT",
    "embedding": "EMBEDDING",
}
OI_EVALUATOR: Final = "EVALUATOR"
OI_INPUT: Final = "input.value"
OI_INPUT_TYPE: Final = "input.mime_type"
OI_OUTPUT: Final = "output.value"
OI_OUTPUT_TYPE: Final = "output.mime_type"
TEXT: Final = "text/plain"
JSON: Final = "application/json"
SESSION: Final = "session.id"
USER: Final = "user.id"
METADATA: Final = "metadata"
OI_TEMPLATE: Final = "llm.prompt_template.template"
OI_TEMPLATE_VARIABLES: Final = "llm.prompt_template.variables"
OI_TEMPLATE_VERSION: Final = "llm.prompt_template.version"
OI_PROJECT: Final = "openinference.project.name"

# -- spans: our own -------------------------------------------------------------------------------

KIND: Final = "llmeval.span.kind"
OUTSIDE_PARENT: Final = "llmeval.span.outside_parent"
"""True where the parent is no span of ours; absent otherwise."""
INCLUSION_PROBABILITY: Final = "llmeval.span.inclusion_probability"
"""The chance that the span's trace was not left out; absent where it is 1."""
SPAN_NAME: Final = "llmeval.span.name"
"""The app's own name of a span, in exported files only."""
EXTRACTIONS: Final = "llmeval.extractions"
EXPECTED: Final = "llmeval."
"""Begins the attributes of ``expected_response`` and the like."""
COST: Final = "llmeval.usage.cost_usd"
TAG: Final = "llmeval.tag."
METRIC: Final = "llmeval.metric."
SCORE: Final = "llmeval.score."
LABEL: Final = "llmeval.label."
JUDGE_TAG: Final = model.JUDGE_TAG
"""The tag that marks a judge's own run."""

# -- evaluations ----------------------------------------------------------------------------------

EVENT: Final = "gen_ai.evaluation.result"
EVALUATION_NAME: Final = "gen_ai.evaluation.name"
SCORE_VALUE: Final = "gen_ai.evaluation.score.value"
SCORE_LABEL: Final = "gen_ai.evaluation.score.label"
EXPLANATION: Final = "gen_ai.evaluation.explanation"
TARGET: Final = "gen_ai.evaluation.target"
"""The span's name; not in the conventions, but Logfire's live view is built on it."""
EVALUATOR_KIND: Final = "llmeval.evaluator.kind"
EVALUATOR_ID: Final = "llmeval.evaluator.id"
EVALUATOR_VERSION: Final = "llmeval.evaluator.version"
EVALUATOR_KINDS: dict[EvaluatorKind, str] = {
    "heuristic": "code",
    "judge": "llm_judge",
    "decision": "decision_model",
    "human": "human",
}
JUDGE_MODEL: Final = "llmeval.judge.model"
PROBABILITY: Final = "llmeval.evaluation.probability"
"""How likely the outcome is good."""
INCLUSION: Final = "llmeval.inclusion_probability"
DURATION: Final = "llmeval.evaluation.duration"
FIELD: Final = "llmeval.field"
"""The field of an answer that the evaluation is about, such as ``lines.amount``."""
DETAILS: Final = "llmeval.evaluation.metadata"
EVALUATION_ID: Final = "llmeval.evaluation.id"
"""The id of an evaluation, in exported files only."""
HISTOGRAM: Final = "llmeval.evaluation.score"
INFO: Final = 9
WARN: Final = 13

# -- metrics: model calls -------------------------------------------------------------------------

CALL_DURATION: Final = "gen_ai.client.operation.duration"
CALL_FIRST_CHUNK: Final = "gen_ai.client.operation.time_to_first_chunk"
CALL_TOKENS: Final = "gen_ai.client.token.usage"
TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105 - a kind of token, not one

# -- metrics: what stats() says -------------------------------------------------------------------

SPANS: Final = "llmeval.spans"
EVALUATIONS: Final = "llmeval.evaluations"
DELIVERED: Final = "llmeval.exporter.delivered"
DROPPED: Final = "llmeval.exporter.dropped"
UNKNOWN: Final = "llmeval.exporter.unknown"
QUEUE: Final = "llmeval.exporter.queue.size"
JUDGED: Final = "llmeval.judge.judged"
NOT_RUN: Final = "llmeval.judge.not_run"
PENDING: Final = "llmeval.judge.pending"
JUDGE_TOKENS: Final = "llmeval.judge.tokens"
JUDGE_COST: Final = "llmeval.judge.cost"
CUT_PROMPTS: Final = "llmeval.judge.cut_prompts"
PROBLEMS: Final = "llmeval.problems"
EXPORTER: Final = "llmeval.exporter.name"
NOT_RUN_REASON: Final = "llmeval.not_run.reason"
SITE: Final = "llmeval.site"
