"""The nouns: frozen values that every other room passes around.

Absent is ``None``; an empty tuple is present and empty. Times are nanoseconds since the Unix epoch
unless a name says seconds. Ids are W3C hex: 32 characters for a trace, 16 for a span.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, Literal

from llmeval_sdk._quick_init import quicken


SpanKind = Literal["workflow", "task", "retrieval", "llm", "tool", "agent", "embedding"]
EvaluatorKind = Literal["heuristic", "judge", "human"]
Score = float | bool | str | None
Request = str | Mapping[str, Any]

NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why something has no result: a low-cardinality type and a message for people."""

    type: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens (and money, where the price is known) that model calls used."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cost_usd: float | None = None

    def __add__(self, other: Usage) -> Usage:
        """Sum two usages; an unknown cost stays unknown only if both are unknown."""
        costs = [c for c in (self.cost_usd, other.cost_usd) if c is not None]
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.total_tokens + other.total_tokens,
            sum(costs) if costs else None,
        )


@dataclass(frozen=True, slots=True)
class Chunk:
    """One retrieved passage. ``content`` or ``doc_uri`` is there; all else is optional."""

    content: str | None = None
    doc_uri: str | None = None
    chunk_id: str | None = None
    score: float | None = None
    """Relevance by the retriever, expected in 0..1."""
    page: int | str | None = None
    retrieval_method: str | None = None
    """Which side found it, such as ``bm25`` or ``knn``; a chunk found by both stands twice."""
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Extraction:
    """One value that an LLM took from one chunk."""

    value: Any = None
    chunk_number: int | None = None
    """1-based rank of the chunk it came from; missing or zero contributes nothing."""
    confidence: float | str | None = None
    evidence: str | None = None
    """The passage the value was taken from, if the model quoted one."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt behind an LLM call: its template and what was filled in.

    ``variables`` named in ``rag_context_variables`` (default ``context``) hold the retrieved text
    and those in ``rag_query_variables`` (default ``question``) the user's question. Datadog's guide
    spells the two ``rag_context_variable_keys`` and ``rag_query_variable_keys``; both are taken.
    """

    id: str | None = None
    version: str | None = None
    template: str | None = None
    chat_template: tuple[Mapping[str, Any], ...] | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    rag_context_variables: tuple[str, ...] = ("context",)
    rag_query_variables: tuple[str, ...] = ("question",)
    tags: Mapping[str, str] | None = None
    rag_context_variable_keys: InitVar[Sequence[str] | None] = None
    rag_query_variable_keys: InitVar[Sequence[str] | None] = None

    def __post_init__(
        self, context_keys: Sequence[str] | None, query_keys: Sequence[str] | None
    ) -> None:
        context, query = "rag_context_variables", "rag_query_variables"
        object.__setattr__(self, context, _names(context_keys or getattr(self, context)))
        object.__setattr__(self, query, _names(query_keys or getattr(self, query)))


def _names(given: Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


@dataclass(frozen=True, slots=True)
class Record:
    """The frozen thing an evaluator sees: one live request or one offline row."""

    request_id: str | None = None
    request: Request | None = None
    """A string, an OpenAI chat request (``messages``) or ``{query, history}``."""
    response: str | None = None
    retrieved_context: tuple[Chunk, ...] | None = None
    """In rank order."""
    expected_facts: tuple[str, ...] | None = None
    expected_response: str | None = None
    expected_retrieved_context: tuple[Chunk, ...] | None = None
    extractions: tuple[Extraction, ...] | None = None
    value: Any = None
    """The aggregated value of an extraction; the response where nothing else was annotated."""
    confidence: float | str | None = None
    """The aggregation's own confidence."""
    field_config: Mapping[str, Any] | None = None
    """What is known about the field: ``name``, ``description``, ``format`` …"""
    retrieval: Mapping[str, Any] | None = None
    """``limits`` by method and ``total_before_filter``, as the app knows them."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage | None = None
    latency_seconds: float | None = None
    trace_id: str | None = None
    span_id: str | None = None
    span_name: str | None = None
    span_kind: SpanKind | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One outcome of one evaluator. The type of ``value`` decides what it is.

    ``float`` is a score, ``bool`` pass or fail, ``str`` a category (a yes/no rating is the string
    ``yes`` or ``no``), ``None`` not applicable. A failed evaluator has an ``error`` and no value.
    """

    name: str
    value: Score = None
    label: str | None = None
    """A word for the value, such as a band."""
    explanation: str | None = None
    error: Failure | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    evaluator_kind: EvaluatorKind = "heuristic"
    evaluator_version: str = "1"
    duration: float | None = None
    """Seconds the evaluator took."""
    usage: Usage | None = None
    inclusion_probability: float = 1.0
    """Chance, over all traffic, that this evaluation was made; its inverse corrects averages."""


JUDGE_TAG = "llmeval.judge"
"""The tag of every span of a judge's run: which judge made it, and that it is not the app's."""
STAND_IN = "stand-in"
"""The model name of the rules that stand in for a judge model in tests and demos."""


def is_stand_in(evaluation: Evaluation) -> bool:
    """Say whether rules, not a model, gave a verdict: every place that shows it says so."""
    return evaluation.metadata.get("model") == STAND_IN


@dataclass(frozen=True, slots=True)
class Target:
    """The span that an evaluation is about; all ``None`` when it was submitted outside any."""

    trace_id: str | None = None
    span_id: str | None = None
    span_name: str | None = None
    span_kind: SpanKind | None = None


@dataclass(frozen=True, slots=True)
class EvaluationEvent:
    """An Evaluation on its way to the exporters."""

    id: str
    """The same for the same evaluation delivered twice."""
    target: Target
    evaluation: Evaluation
    timestamp_ns: int


@dataclass(frozen=True, slots=True)
class NotRun:
    """A judge that did not run on a span, and why (the reasons of DESIGN §7)."""

    id: str
    target: Target
    evaluator: str
    reason: str
    detail: str
    timestamp_ns: int


@dataclass(frozen=True, slots=True)
class SpanData:
    """A finished span, as exporters see it."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: SpanKind
    start_ns: int
    end_ns: int
    request: Any = None
    response: Any = None
    retrieved_context: tuple[Chunk, ...] | None = None
    extractions: tuple[Extraction, ...] | None = None
    error: Failure | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Free metadata of the app."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    prompt: Prompt | None = None
    usage: Usage | None = None
    session_id: str | None = None
    model_name: str | None = None
    model_provider: str | None = None
    links: tuple[Target, ...] = ()
    """Spans of other traces this one is about: a judge's run links to what it judged."""
    evaluations: tuple[Evaluation, ...] = ()
    """What the inline heuristics said while the span was open."""
    trace_flags: int = 1
    expected: Mapping[str, Any] = field(default_factory=dict)
    """Ground truth that the app annotated, by its Record field."""
    context: Any = None
    """What exporters with live hooks left on the span, by their names."""
    value: Any = None
    """The aggregated value of an extraction, where the app annotated one."""
    confidence: float | str | None = None
    field_config: Mapping[str, Any] | None = None
    retrieval: Mapping[str, Any] | None = None

    @property
    def arguments(self) -> Mapping[str, Any] | None:
        """What the function was called with, as far as the request still says it."""
        return self.request if type(self.request) is dict else None


@dataclass(frozen=True, slots=True)
class Batch:
    """What a delivery hands to an exporter at once."""

    spans: tuple[SpanData, ...] = ()
    evaluations: tuple[EvaluationEvent, ...] = ()
    not_run: tuple[NotRun, ...] = ()

    def __len__(self) -> int:
        """Count the records that delivery accounts for."""
        return len(self.spans) + len(self.evaluations)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat with a judge model."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Completion:
    """What a judge model answered."""

    text: str
    model: str = ""
    usage: Usage | None = None
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a model that a judgement made elsewhere, for its trace."""

    name: str
    start_ns: int
    end_ns: int
    model: str = ""
    usage: Usage | None = None
    response: str | None = None
    error: str | None = None
    """The low-cardinality type of what went wrong."""


quicken(Chunk, Extraction, Record, Evaluation, SpanData, EvaluationEvent)  # made at each request
