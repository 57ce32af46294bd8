"""What evaluators and judge models take and return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Any, Literal


if not TYPE_CHECKING:
    from llmeval_sdk.model._noun import noun
else:  # last, as what reads the sources for the documentation takes the last one
    from dataclasses import dataclass as noun


SpanKind = Literal["workflow", "task", "retrieval", "llm", "tool", "agent", "embedding"]
EvaluatorKind = Literal["heuristic", "judge", "decision", "human"]
Unit = Literal["answer", "chunk", "step", "session"]
Score = float | bool | str | None
Request = str | Mapping[str, Any]

NOTHING: Mapping[str, Any] = {}


@noun(frozen=True, slots=True)
class Failure:
    """Why something has no result: a low-cardinality type and a message for people."""

    type: str
    message: str = ""


@noun(frozen=True, slots=True)
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


def total_usage(*usages: Usage | None) -> Usage | None:
    """Sum what several calls used; ``None`` where none of them says it."""
    known = [usage for usage in usages if usage is not None]
    return sum(known[1:], known[0]) if known else None


@noun(frozen=True, slots=True)
class Chunk:
    """One retrieved passage, which has a ``content``, a ``doc_uri`` or both.

    Args:
        content: The text of the passage.
        doc_uri: The address of the document that it comes from. Ground-truth chunks need it.
        chunk_id: Its id. A chunk that two methods found is listed twice, with the same id.
        score: Its relevance according to the retriever, expected in 0..1.
        page: The page of the document.
        retrieval_method: Which search found it, such as ``bm25`` or ``knn``.
        metadata: Anything else the retriever returned.
    """

    content: str | None = None
    doc_uri: str | None = None
    chunk_id: str | None = None
    score: float | None = None
    page: int | str | None = None
    retrieval_method: str | None = None
    metadata: Mapping[str, Any] | None = None


@noun(frozen=True, slots=True)
class Extraction:
    """One value that an LLM took from one chunk.

    Args:
        value: The value.
        chunk_number: The rank of the chunk that it comes from, beginning with 1. An extraction
            without a number, or with 0, contributes nothing to scores that compare ranks.
        confidence: How sure the LLM was: 0..1, or HIGH, MEDIUM or LOW.
        evidence: The passage that the LLM quoted for the value.
    """

    value: Any = None
    chunk_number: int | None = None
    confidence: float | str | None = None
    evidence: str | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of an LLM call: its template and the values that were filled in.

    Args:
        id: A name that stays the same over all versions of the prompt.
        version: The version of the prompt.
        template: The text with its placeholders.
        chat_template: The same as chat messages, each a mapping of ``role`` and ``content``.
        variables: The values of the placeholders, by name.
        rag_context_variables: Which variables hold the retrieved text.
        rag_query_variables: Which variables hold the user's question.
        tags: Labels to filter by.
        rag_context_variable_keys: ``rag_context_variables`` as Datadog's guide spells it.
        rag_query_variable_keys: ``rag_query_variables`` as Datadog's guide spells it.
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


@noun(frozen=True, slots=True)
class Step:
    """One message or tool call in a run of an agent.

    Args:
        role: ``tool`` for a tool call with its outcome; else who wrote the message.
        content: The text of a message.
        name: The name of the tool.
        arguments: What it was called with, by name; a text where that is no JSON object.
        result: What the tool returned; ``None`` where no result came.
        error: Why the tool failed.
        effect: Whether the call changes something; by default the tool's name tells.
        start_ns: When the call began, in nanoseconds since the epoch.
        end_ns: When it ended.
        agent: The agent that made the call, where it is one below the agent of the run.
        span_id: The id of the call's span, 16 hex characters, where it has one. Two equal calls are
            equal whatever their spans.
    """

    role: Literal["user", "assistant", "system", "tool"]
    content: str | None = None
    name: str | None = None
    arguments: Any = None
    result: Any = None
    error: str | None = None
    effect: Literal["read", "write"] | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    agent: str | None = None
    span_id: str | None = field(default=None, compare=False, repr=False)


@noun(frozen=True, slots=True)
class Record:
    """What an evaluator sees of one request: a live one, or a row of a data set.

    A Record never changes. ``None`` means that a field is absent; an empty tuple is present.

    Args:
        request_id: The id of the request.
        request: What was asked: a string, an OpenAI chat request (``messages``), or a mapping of
            ``query`` and ``history``.
        response: What was answered.
        retrieved_context: The retrieved chunks in rank order.
        expected_facts: Ground truth: facts that the response should state.
        expected_response: Ground truth: a complete answer.
        expected_retrieved_context: Ground truth: chunks that should have been retrieved.
        extractions: The values that an LLM took from the chunks.
        value: The aggregated value of an extraction; the response where none was annotated.
        confidence: The aggregation's own confidence: 0..1, or HIGH, MEDIUM or LOW.
        field_config: What is known about an extracted field: ``name``, ``description``,
            ``format``.
        retrieval: How the search went: ``limits`` by method, ``total_before_filter``.
        attributes: Free metadata of the app.
        usage: Tokens and money that the app's own model calls used.
        latency_seconds: How long the request took.
        trace_id: The id of its trace, 32 hex characters.
        span_id: The id of its span, 16 hex characters.
        span_name: The name of its span.
        span_kind: The kind of its span, such as ``workflow``.
        steps: What an agent did, in order; request and response stand for missing messages.
        tools: Definitions of the tools it was offered: ``name``, ``parameters`` (a JSON schema).
        expected_trajectory: Ground truth: the tool calls that the agent should have made.
        abstained: Why the app chose to give no answer, where it said so.
        tags: Labels of its span, by which rules choose requests. No judge's prompt has them.

    Examples:
        >>> record = llmeval.Record(request="What is the roof made of?", response="Slate.")
        >>> record.retrieved_context is None
        True
    """

    request_id: str | None = None
    request: Request | None = None
    response: str | None = None
    retrieved_context: tuple[Chunk, ...] | None = None
    expected_facts: tuple[str, ...] | None = None
    expected_response: str | None = None
    expected_retrieved_context: tuple[Chunk, ...] | None = None
    extractions: tuple[Extraction, ...] | None = None
    value: Any = None
    confidence: float | str | None = None
    field_config: Mapping[str, Any] | None = None
    retrieval: Mapping[str, Any] | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage | None = None
    latency_seconds: float | None = None
    trace_id: str | None = None
    span_id: str | None = None
    span_name: str | None = None
    span_kind: SpanKind | None = None
    steps: tuple[Step, ...] | None = None
    tools: tuple[Mapping[str, Any], ...] | None = None
    expected_trajectory: tuple[Step, ...] | None = None
    abstained: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@noun(frozen=True, slots=True)
class Evaluation:
    """One outcome of one evaluator. The type of ``value`` decides what kind of outcome it is.

    Args:
        name: The name of the evaluator.
        value: A ``float`` is a score, a ``bool`` pass or fail, a ``str`` a category (the rating of
            a yes/no question is ``yes`` or ``no``), and ``None`` means that the evaluator does not
            apply. A failed evaluator has an ``error`` and no value.
        label: A word for the value, such as the band that a score lies in.
        explanation: Why the value is what it is.
        error: Why there is no value.
        metadata: Details, which differ by evaluator.
        evaluator_kind: ``heuristic``, ``judge``, ``decision`` (a decision model answered the
            judge's question) or ``human``.
        evaluator_version: Values of different versions are not comparable.
        duration: How many seconds the evaluator took.
        usage: Tokens and money that a judge used.
        inclusion_probability: The chance, over all traffic, that this evaluation was made. Averages
            are corrected by its inverse. 0 where nobody knows it.
        probability: The probability, from 0 to 1, that the outcome is good. Decision models give
            one; ``None`` where nobody did.
    """

    name: str
    value: Score = None
    label: str | None = None
    explanation: str | None = None
    error: Failure | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    evaluator_kind: EvaluatorKind = "heuristic"
    evaluator_version: str = "1"
    duration: float | None = None
    usage: Usage | None = None
    inclusion_probability: float = 1.0
    probability: float | None = None


JUDGING: tuple[EvaluatorKind, ...] = ("judge", "decision")
"""The kinds of evaluations that answer what a judge asks, by either kind of model."""


def tier_name(judge: str, kind: EvaluatorKind) -> str:
    """Return the name under which one tier of a judge is counted.

    What a decision model was asked in a judge's place is counted apart: ``groundedness.decision``.
    """
    return f"{judge}.decision" if kind == "decision" else judge


DAY_SECONDS = 86_400.0
HOUR_NS = 3_600_000_000_000
DAY_NS = 24 * HOUR_NS

JUDGE_TAG = "llmeval.judge"
"""The tag of every span of a judge's run: which judge made it, and that it is not the app's."""
STAND_IN = "stand-in"
"""The model name of the rules that stand in for a judge model in tests and demos."""


def is_stand_in(evaluation: Evaluation) -> bool:
    """Say whether rules, not a model, gave a verdict: every place that shows it says so."""
    return evaluation.metadata.get("model") == STAND_IN


# What is said to a judge model, and what it answers.


@noun(frozen=True, slots=True)
class Message:
    """One turn of a chat with a judge model.

    Args:
        role: Who speaks: ``system``, ``user`` or ``assistant``.
        content: The text.
    """

    role: Literal["system", "user", "assistant"]
    content: str


@noun(frozen=True, slots=True)
class Completion:
    """The answer of a judge model.

    Args:
        text: What the model wrote.
        model: The exact name of the model that answered.
        usage: Tokens and money that the call used.
        finish_reason: Why the model stopped, such as ``stop`` or ``length``.
    """

    text: str
    model: str = ""
    usage: Usage | None = None
    finish_reason: str | None = None


@noun(frozen=True, slots=True)
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


# What the pipeline delivers to exporters: spans, evaluations, and judges that did not run.


@noun(frozen=True, slots=True)
class Target:
    """The span that an evaluation is about; all ``None`` when it was submitted outside any."""

    trace_id: str | None = None
    span_id: str | None = None
    span_name: str | None = None
    span_kind: SpanKind | None = None
    marks: tuple[tuple[str, object], ...] = ()
    """What the metadata of each of its evaluations says beside: such as their scope."""


@noun(frozen=True, slots=True)
class EvaluationEvent:
    """An Evaluation on its way to the exporters."""

    id: str
    """The same for the same evaluation delivered twice."""
    target: Target
    evaluation: Evaluation
    timestamp_ns: int


@noun(frozen=True, slots=True)
class NotRun:
    """A judge that did not run on a span, and why; `statistics.reasons` has the reasons."""

    id: str
    target: Target
    evaluator: str
    reason: str
    detail: str
    timestamp_ns: int


@noun(frozen=True, slots=True)
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
    """The scores of the inline heuristics."""
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
    outside_parent: bool = False
    """Whether the parent is no span of ours: it is in another process, or another library's."""
    inclusion_probability: float | None = None
    """The chance, from 0 to 1, that the span's trace stayed when a process had more than it could
    work off; sums are corrected by its inverse. ``None`` means 1: nothing was left out."""

    @property
    def is_local_root(self) -> bool:
        """Whether no span of ours is above it here, so that it is where a request begins."""
        return self.parent_id is None or self.outside_parent

    @property
    def arguments(self) -> Mapping[str, Any] | None:
        """What the function was called with, as far as the request still says it."""
        return self.request if type(self.request) is dict else None


@noun(frozen=True, slots=True)
class Batch:
    """What a delivery hands to an exporter at once."""

    spans: tuple[SpanData, ...] = ()
    evaluations: tuple[EvaluationEvent, ...] = ()
    not_run: tuple[NotRun, ...] = ()

    def __len__(self) -> int:
        """Count the records that delivery accounts for."""
        return len(self.spans) + len(self.evaluations)


# What a decision model is asked and what it answers, in no vendor's words.


@noun(frozen=True, slots=True)
class Option:
    """One possible answer to a question.

    Args:
        value: Its name: ``yes`` and ``no``, a category, or the label of a level.
        description: When it applies, in the words of the rubric.
    """

    value: str
    description: str = ""


@noun(frozen=True, slots=True)
class Question:
    """A typed question about a record.

    Args:
        name: What its answer is found by; unique within one call of `DecisionModel.decide`. It is
            never made of anything that a record holds.
        type: ``yes_no``, ``choice`` (one of the options) or ``score`` (a level, the options being
            ordered from low to high).
        instructions: The rubric. It refers to parts of the data by their titles and holds nothing
            of what is judged.
        options: Those of ``choice`` and ``score``; for ``yes_no`` none, or ``yes`` and ``no`` with
            their descriptions.
    """

    name: str
    type: Literal["yes_no", "choice", "score"]
    instructions: str
    options: tuple[Option, ...] = ()


@noun(frozen=True, slots=True)
class Answer:
    """The answer to one question: a probability for each option, or the reason why there is none.

    Args:
        probabilities: By the option's value (``yes`` and ``no`` of a ``yes_no`` question), each in
            0..1, with the sum 1. Empty where there is an error.
        error: ``refused``, ``malformed`` or ``unanswered``, where the model gave no usable answer
            to this question. The other questions of the same request are not affected.
    """

    probabilities: Mapping[str, float] = field(default_factory=dict)
    error: Failure | None = None


@noun(frozen=True, slots=True)
class Decision:
    """What came of one call of `DecisionModel.decide`.

    Args:
        answers: By the name of the question; every question that was asked has one.
        model: The exact name of the model that answered.
        usage: Tokens and money of all requests together.
        requests: How many requests it took: more than one where a limit of the wire, or a retry,
            made it so.
    """

    answers: Mapping[str, Answer]
    model: str = ""
    usage: Usage | None = None
    requests: int = 1
