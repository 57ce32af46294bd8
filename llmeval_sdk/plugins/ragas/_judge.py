"""Judges that run one Ragas metric each: what it needs, what it may spend, what its score says.

What each metric needs and may use at most is known without importing Ragas.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, ClassVar, Literal

from llmeval_sdk import config
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError, JudgeError, nearest
from llmeval_sdk.judges.prompt import fair_limit, shortened, split_request
from llmeval_sdk.model import Chunk, Evaluation, Failure, ModelCall, Record, Usage, total_usage
from llmeval_sdk.model.fields import CHUNK_TEXT, EVIDENCE, missing
from llmeval_sdk.model.protocols import LLM
from llmeval_sdk.model.records import evidence_of
from llmeval_sdk.plugins.ragas import RagasSettings, runner


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric: what a record must have, and the most calls it makes, of embeddings too."""

    needs: tuple[str, ...]
    calls: int = 1
    calls_per_context: int = 0
    definition: str = ""
    """How its score is computed, kept with each score."""

    def most_calls(self, contexts: int) -> int:
        """Return the most calls on a record with so many contexts."""
        return self.calls + self.calls_per_context * contexts


_ANSWER = ("request", "response")
_RAG = (*_ANSWER, CHUNK_TEXT)
_GROUNDED = (*_ANSWER, EVIDENCE)
_REFERENCE = "expected_response|expected_facts"
_JUDGED = ("response", _REFERENCE)
_RETRIEVED = ("request", _REFERENCE, CHUNK_TEXT)
_SOURCES = (CHUNK_TEXT, "expected_retrieved_context")

DATADOG = {
    "faithfulness": Metric(needs=_GROUNDED, calls=2, definition="faithful statements / statements"),
    "answer_relevancy": Metric(
        needs=_ANSWER,
        calls=4,
        definition="mean cosine of the question and generated questions; 0 if noncommittal",
    ),
    "context_precision": Metric(
        needs=_RAG, calls=0, calls_per_context=1, definition="useful contexts / contexts"
    ),
}
"""As Datadog defined them; ``ragas_`` stands before each name."""

VARIANTS = {
    "faithfulness": Metric(needs=_GROUNDED, calls=2),
    "answer_relevancy": Metric(needs=_ANSWER, calls=5),
    "context_precision": Metric(needs=_RETRIEVED, calls=0, calls_per_context=1),
    "context_precision_with_reference": Metric(needs=_RETRIEVED, calls=0, calls_per_context=1),
    "context_precision_without_reference": Metric(needs=_RAG, calls=0, calls_per_context=1),
    "context_utilization": Metric(needs=_RAG, calls=0, calls_per_context=1),
    "context_recall": Metric(needs=_RETRIEVED, calls=1),
    "context_entity_recall": Metric(needs=(_REFERENCE, CHUNK_TEXT), calls=2),
    "context_relevance": Metric(needs=("request", CHUNK_TEXT), calls=10),
    "response_groundedness": Metric(needs=("response", EVIDENCE), calls=10),
    "answer_accuracy": Metric(needs=(*_ANSWER, _REFERENCE), calls=10),
    "answer_correctness": Metric(needs=(*_ANSWER, _REFERENCE), calls=5),
    "factual_correctness": Metric(needs=_JUDGED, calls=4),
    "noise_sensitivity": Metric(needs=(*_RAG, _REFERENCE), calls=3, calls_per_context=2),
    "semantic_similarity": Metric(needs=_JUDGED, calls=2),
    "summary_score": Metric(needs=("response", "expected_retrieved_context"), calls=3),
    "sql_semantic_equivalence": Metric(needs=_JUDGED, calls=1),
    "quoted_spans_alignment": Metric(needs=("response", CHUNK_TEXT), calls=0),
    "non_llm_context_recall": Metric(needs=_SOURCES, calls=0),
    "non_llm_context_precision_with_reference": Metric(needs=_SOURCES, calls=0),
    "bleu_score": Metric(needs=_JUDGED, calls=0),
    "rouge_score": Metric(needs=_JUDGED, calls=0),
    "chrf_score": Metric(needs=_JUDGED, calls=0),
    "exact_match": Metric(needs=_JUDGED, calls=0),
    "string_presence": Metric(needs=_JUDGED, calls=0),
    "non_llm_string_similarity": Metric(needs=_JUDGED, calls=0),
}
"""As Ragas computes them, by the names it gives them; ``ragas:`` stands before each name."""

OBJECT_CALLS = 10
"""Calls reserved for a metric object, beside one for each context: its class may be anybody's."""

COLUMN_NEEDS = {
    "user_input": "request",
    "response": "response",
    "retrieved_contexts": CHUNK_TEXT,
    "reference": _REFERENCE,
    "reference_contexts": "expected_retrieved_context",
}
"""Ragas' columns and what they are in a Record."""


def variant(name: str) -> Metric:
    """Find one of Ragas' own metrics; raises `ConfigurationError` with the nearest name."""
    found = VARIANTS.get(name)
    if found is None:
        raise ConfigurationError(f"unknown Ragas metric 'ragas:{name}': {nearest(name, VARIANTS)}")
    return found


# A Record as Ragas' columns.


def columns_of(record: Record) -> dict[str, Any]:
    """Return the columns that a Record has something for."""
    reference = record.expected_response
    if reference is None and record.expected_facts is not None:
        reference = "\n".join(record.expected_facts)
    found = {
        "user_input": None if record.request is None else split_request(record.request)[0],
        "response": record.response,
        "retrieved_contexts": _texts(record.retrieved_context),
        "reference": reference,
        "reference_contexts": _texts(record.expected_retrieved_context),
    }
    return {name: value for name, value in found.items() if value is not None}


def bounded(columns: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Hold all texts together to what a prompt may have; return the names of what was cut, too."""
    texts = [text for value in columns.values() for text in _several(value)]
    limit = fair_limit([len(text) for text in texts])
    cut = [name for name, value in columns.items() if any(len(t) > limit for t in _several(value))]
    short = {
        name: shortened(value, limit)
        if isinstance(value, str)
        else [shortened(text, limit) for text in value]
        for name, value in columns.items()
    }
    return short, cut


def _several(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _texts(chunks: Sequence[Chunk] | None) -> list[str] | None:
    """Return the texts of chunks; one of nothing but spaces is none."""
    if chunks is None:
        return None
    return [chunk.content for chunk in chunks if chunk.content and not chunk.content.isspace()]


_INSTRUCTIONS = 1_500
"""Tokens of a call's own instructions and examples, at most."""
_REPLY = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class RagasJudge:
    """Runs a metric of Ragas on a Record. The metric is a name, or an object of the app's."""

    kind: ClassVar[Literal["judge"]] = "judge"
    per: ClassVar[Literal["answer", "chunk"]] = "answer"
    calls_here: ClassVar[bool] = False
    blocking: ClassVar[bool] = False
    model: ClassVar[None] = None
    output: ClassVar[str] = "score"
    span_tags: ClassVar[Mapping[str, str]] = {"runner.integration": "ragas"}
    name: str
    metric: Any
    limits: Metric
    version: str = "1"
    span_kinds: tuple[str, ...] = ()
    """Judged before the workflow above them, where they are enough: see `Judge`."""
    predictor: str | None = None
    settings: Settings | None = field(default=None, compare=False, repr=False)

    @property
    def needs(self) -> tuple[str, ...]:
        """Return the Record fields the metric reads."""
        return self.limits.needs

    @property
    def needs_model(self) -> bool:
        """Say whether it asks the judge model at all."""
        return self.limits.calls + self.limits.calls_per_context > 0

    def lacks(self, record: Record, /) -> str | None:
        """Name nothing: what a metric needs are fields of a Record."""
        return None

    def configured(self, settings: Settings) -> RagasJudge:
        """Return this judge under the settings in force."""
        return replace(self, settings=settings)

    def _with_evidence(self, record: Record) -> Record:
        """Count what tools returned as context, where the metric compares an answer with it."""
        if EVIDENCE not in self.needs:
            return record
        return replace(record, retrieved_context=evidence_of(record))

    async def evaluate(self, record: Record, llm: LLM, /) -> Evaluation:
        """Judge one Record: a score, an error, or neither where inputs are missing."""
        absent = missing(record, self.needs)
        if absent is not None:
            return self._evaluation(metadata={"missing_inputs": absent})
        columns, cut = bounded(columns_of(self._with_evidence(record)))
        contexts = len(columns.get("retrieved_contexts", ()))
        most = self.limits.most_calls(contexts)
        if not most and self.limits.calls_per_context:
            return self._evaluation(metadata={"missing_inputs": "contexts with text"})
        settings = self.settings or config.from_environment(problems=[])
        started = perf_counter()
        async with _lease(llm, most, _most_usage(columns, most)) as lease:
            job = {"metric": self.metric, "columns": columns, "calls": most}
            job["embeddings"] = settings.of(RagasSettings).judge_embeddings
            answer = await runner.run(job, lease.llm, settings)
            lease.requests = answer.get("requests", 0)
            lease.calls = [_call(each) for each in answer.get("calls", ())]
            lease.failure = (answer.get("error") or {}).get("type")
        return self._read(answer, lease.calls, perf_counter() - started, cut)

    def _read(
        self, answer: Mapping[str, Any], calls: list[ModelCall], seconds: float, cut: list[str]
    ) -> Evaluation:
        metadata = {**answer.get("metadata", {}), "ragas": answer.get("ragas")}
        if cut:
            metadata["cut"] = cut
        if self.limits.definition:
            metadata["definition"] = self.limits.definition
        error = answer.get("error")
        found = self._evaluation(
            explanation=answer.get("explanation"),
            metadata=metadata,
            duration=seconds,
            usage=total_usage(*(call.usage for call in calls)),
        )
        if error is not None:
            return replace(found, error=Failure(error["type"], error["message"][:500]))
        return replace(found, value=answer.get("value"))

    def _evaluation(self, **fields: Any) -> Evaluation:
        return Evaluation(
            self.name, evaluator_kind="judge", evaluator_version=self.version, **fields
        )


@dataclass(slots=True)
class _Unmetered:
    """Stands for a lease where no budget is kept: offline."""

    llm: LLM
    calls: list[ModelCall] = field(default_factory=list)
    requests: int = 0
    failure: str | None = None


@asynccontextmanager
async def _lease(llm: Any, calls: int, most: Usage) -> AsyncIterator[Any]:
    """Reserve the worst case with whoever keeps the budget of this LLM."""
    lease = getattr(llm, "lease", None)
    why_not = getattr(llm, "why_not", None)
    if calls and why_not is not None:  # before Ragas is looked for, which is not what is missing
        raise JudgeError(getattr(llm, "reason", "no_judge_model"), why_not)
    if lease is None or not calls:
        yield _Unmetered(getattr(llm, "inner", llm))
        return
    async with lease(calls=calls, most=most) as granted:
        yield granted


def _most_usage(columns: Mapping[str, object], calls: int) -> Usage:
    """Return the most tokens of so many calls that each may see the whole record."""
    asked = (sum(len(str(value)) for value in columns.values()) // 3 + _INSTRUCTIONS) * calls
    return Usage(asked, _REPLY * calls, asked + _REPLY * calls)


def _call(told: Mapping[str, Any]) -> ModelCall:
    usage = told.get("usage")
    return ModelCall(**{**told, "usage": Usage(**usage) if usage else None})


def _datadog(name: str, *, predictor: str | None = None) -> RagasJudge:
    return RagasJudge(
        name=f"ragas_{name}",
        metric=f"ragas_{name}",
        limits=DATADOG[name],
        span_kinds=("llm",),
        predictor=predictor,
    )


ragas_faithfulness = _datadog("faithfulness", predictor="groundedness_risk")
ragas_answer_relevancy = _datadog("answer_relevancy")
ragas_context_precision = _datadog("context_precision")


def by_name(name: str) -> RagasJudge:
    """Make the judge ``ragas:<name>`` of one of Ragas' own metrics."""
    return RagasJudge(name=f"ragas:{name}", metric=name, limits=variant(name))


def adapted(metric: Any) -> RagasJudge | None:
    """Make the judge ``ragas:<its name>`` of an object of Ragas, if it is a metric.

    Metrics of the current family and of the legacy one will do.
    """
    if not (hasattr(metric, "ascore") or hasattr(metric, "single_turn_ascore")):
        return None
    needs = tuple(COLUMN_NEEDS[column] for column in sorted(_columns(metric)))
    limits = Metric(needs=needs, calls=OBJECT_CALLS, calls_per_context=1)
    return RagasJudge(name=f"ragas:{metric.name}", metric=metric, limits=limits)


def _columns(metric: Any) -> set[str]:
    """Return the columns that a metric cannot do without, as it says itself."""
    if hasattr(metric, "single_turn_ascore"):
        required = metric.required_columns.get("SINGLE_TURN", ())
        return {name for name in required if not name.endswith(":optional")} & set(COLUMN_NEEDS)
    parameters = inspect.signature(metric.ascore).parameters.values()
    return {
        each.name
        for each in parameters
        if each.default is inspect.Parameter.empty and each.name in COLUMN_NEEDS
    }
