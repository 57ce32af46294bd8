"""Names of evaluators and exporters -> where they live; loaded when first used.

A new built-in is one file and one line here. Other packages use the entry points
``llmeval_sdk.evaluators`` and ``llmeval_sdk.exporters``; an app just decorates a function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

from llmeval_sdk import _values
from llmeval_sdk.errors import ConfigurationError, nearest
from llmeval_sdk.protocols import LLM, Evaluator, Judge


HEURISTICS = {
    "context_relevance": "llmeval_sdk.heuristics.context_relevance:context_relevance",
    "context_precision": "llmeval_sdk.heuristics.context_precision:context_precision",
    "context_recall_heuristic": "llmeval_sdk.heuristics.context_recall:context_recall_heuristic",
    "recall_warning": "llmeval_sdk.heuristics.context_recall:recall_warning",
    "aggregated_confidence": "llmeval_sdk.heuristics.aggregated_confidence:aggregated_confidence",
    "semantic_validation": "llmeval_sdk.heuristics.semantic_validation:semantic_validation",
    "multi_source_agreement": "llmeval_sdk.heuristics.agreement:multi_source_agreement",
    "agreement_pattern": "llmeval_sdk.heuristics.agreement:agreement_pattern",
    "retrieval_risk": "llmeval_sdk.heuristics.risk.retrieval:retrieval_risk",
    "groundedness_risk": "llmeval_sdk.heuristics.risk.groundedness:groundedness_risk",
    "extraction_risk": "llmeval_sdk.heuristics.extraction.risk:extraction_risk",
    "abstention_risk": "llmeval_sdk.heuristics.extraction.abstention:abstention_risk",
    "document_recall": "llmeval_sdk.heuristics.document_recall:document_recall",
    **{
        name: f"llmeval_sdk.heuristics.agent.{name}:{name}"
        for name in (
            "run_faults", "tool_call_errors", "tool_call_efficiency", "duplicate_tool_calls",
            "tool_call_loop", "tool_call_schema", "ungrounded_arguments", "ignored_errors",
            "unsupported_action_claims", "unmet_requests", "injected_actions", "trajectory_match",
            "tool_call_accuracy", "tool_call_f1",
        )
    },
    **{
        name: f"llmeval_sdk.heuristics.session.{name}:{name}"
        for name in ("repetition", "unanswered_questions", "turn_count", "session_seconds")
    },
    "total_token_count": "llmeval_sdk.heuristics.usage:total_token_count",
    "total_input_token_count": "llmeval_sdk.heuristics.usage:total_input_token_count",
    "total_output_token_count": "llmeval_sdk.heuristics.usage:total_output_token_count",
    "latency_seconds": "llmeval_sdk.heuristics.usage:latency_seconds",
}  # fmt: skip

EXPECTED = {
    name: f"llmeval_sdk.heuristics.expected.{name}:{name}"
    for name in (
        "exact_match", "contains", "token_f1", "rouge_l", "edit_similarity", "mrr", "ndcg",
    )
}  # fmt: skip
"""Heuristics that compare with ground truth and run only where they are named."""

JUDGES = {
    "relevance_to_query": "llmeval_sdk.judges.relevance_to_query:relevance_to_query",
    "safety": "llmeval_sdk.judges.safety:safety",
    "groundedness": "llmeval_sdk.judges.groundedness:groundedness",
    "chunk_relevance": "llmeval_sdk.judges.chunk_relevance:chunk_relevance",
    "correctness": "llmeval_sdk.judges.correctness:correctness",
    "context_sufficiency": "llmeval_sdk.judges.context_sufficiency:context_sufficiency",
    "context_recall_llm": "llmeval_sdk.judges.context_recall_llm:context_recall_llm",
    "context_recall": "llmeval_sdk.judges.context_recall:context_recall",
    "extraction_correctness": "llmeval_sdk.judges.extraction_correctness:extraction_correctness",
    **{
        name: f"llmeval_sdk.judges.agent.{name}:{name}"
        for name in (
            "task_completion", "tool_selection", "tool_arguments", "plan_adherence", "handoff",
        )
    },
    **{
        name: f"llmeval_sdk.judges.session.{name}:{name}"
        for name in (
            "conversation_completeness", "user_frustration", "goal_reached", "knowledge_retention",
        )
    },
}  # fmt: skip
"""In the order of reports."""

PER = {
    "step": "llmeval_sdk.judges.agent.per_step:StepJudge",
    "session": "llmeval_sdk.judges.session.function:SessionFunction",
}
"""What makes a judge of a function that rates something else than answers and chunks."""

LIBRARY_JUDGES = {
    "ragas_faithfulness": "llmeval_sdk.judges.ragas:ragas_faithfulness",
    "ragas_answer_relevancy": "llmeval_sdk.judges.ragas:ragas_answer_relevancy",
    "ragas_context_precision": "llmeval_sdk.judges.ragas:ragas_context_precision",
}
"""Judges that run on another library, which is an extra."""

FAMILIES = {
    "ragas": "llmeval_sdk.judges.ragas:by_name",
    "regex": "llmeval_sdk.heuristics.expected.regex:by_pattern",
    "json_schema": "llmeval_sdk.heuristics.expected.json_schema:by_file",
    "precision_at_k": "llmeval_sdk.heuristics.expected.precision_at_k:by_rank",
    "recall_at_k": "llmeval_sdk.heuristics.expected.recall_at_k:by_rank",
    "ndcg_at_k": "llmeval_sdk.heuristics.expected.ndcg:by_rank",
}
"""What makes evaluators of a name and what follows it: ``ragas:context_recall``, ``regex:^\\d+$``.
"""

ADAPTERS = {"ragas": "llmeval_sdk.judges.ragas:adapted"}
"""What makes a judge of an object of another library, or returns ``None``, by that library."""

LEARNING = "llmeval_sdk.learning.background:make"
"""What re-fits risk scores on outcomes; it takes the Settings and returns ``None`` if it is off."""

SHARED = "llmeval_sdk.pipeline.sharing:share"
"""What lets the budget, the verdicts and more of a plan be shared by all hosts."""

CONVERSATIONS = "llmeval_sdk.agents.conversation:is_conversation"
"""What says whether a Record holds a conversation."""

STEP_EVENTS = "llmeval_sdk.agents.step_events:step_events"
"""What makes an event of each rating of a tool call."""

SESSIONS = "llmeval_sdk.sessions.start:make"
"""What has the sessions of a plan evaluated when they have been idle."""

DECIDING = "llmeval_sdk.pipeline.tier:make_tier"
"""What says in the place of which judges a decision model is asked."""

FLEET = "llmeval_sdk.fleet.roles:make"
"""What takes judgements in the place of this process's judges, or ``None``, by the Settings."""

JUDGE_MODEL_NAMES = "llmeval_sdk.llms.providers.names:check"
"""What refuses the name of a judge model that nothing stands for."""

EXPORTERS = {
    "local": "llmeval_sdk.exporters.local:LocalExporter",
    "console": "llmeval_sdk.exporters.console:ConsoleExporter",
    "memory": "llmeval_sdk.exporters.memory:MemoryExporter",
    "otlp": "llmeval_sdk.exporters.otel:make",
    "datadog": "llmeval_sdk.exporters.datadog:make",
    "phoenix": "llmeval_sdk.exporters.phoenix:PhoenixExporter",
    "mlflow": "llmeval_sdk.exporters.mlflow:MlflowExporter",
    "langfuse": "llmeval_sdk.exporters.langfuse:LangfuseExporter",
}
"""Each names a callable that takes the Settings and returns an Exporter.

`docs/reference/settings.md` lists the names."""

_own: dict[str, Evaluator] = {}
_listeners: list[Callable[[Evaluator], None]] = []


def check_name(name: Any) -> None:
    """Refuse a name that some backend would refuse; raises `ConfigurationError`."""
    fits = isinstance(name, str) and name.isascii() and name.isidentifier() and len(name) <= 200
    if not fits or name.startswith("_"):
        raise ConfigurationError(
            f"{name!r} is not an evaluator name: use up to 200 ASCII letters, digits and "
            "underscores, starting with a letter; pass name=…"
        )


def register(evaluator: Evaluator) -> None:
    """Make an app's own evaluator known by its name; the later of two with one name wins."""
    _values.declare(evaluator.name, getattr(evaluator, "better", None))
    _own[evaluator.name] = evaluator
    for listener in _listeners:
        listener(evaluator)


def subscribe(listener: Callable[[Evaluator], None]) -> None:
    """Be told of every evaluator that is registered from now on."""
    _listeners.append(listener)


def own_evaluators() -> tuple[Evaluator, ...]:
    """Return what the app registered, in order."""
    return tuple(_own.values())


def forget(name: str) -> None:
    """Take an app's own evaluator out again, for tests."""
    _own.pop(name, None)


def evaluator(name: str) -> Evaluator:
    """Find an evaluator by name; raises `ConfigurationError` with the nearest known name."""
    if name in _own:
        return _own[name]
    family, _, rest = name.partition(":")
    if family in FAMILIES:
        made: Evaluator = load(FAMILIES[family])(rest)
        return made
    path = _path_of(name)
    named: Evaluator = load(path) if path else _from_entry_point("evaluators", name)
    return named


def known(name: str) -> Evaluator | None:
    """Return the app's own or built-in evaluator of a name; ``None`` for any other name.

    It is for names that stand in files: it loads no other package and raises nothing. A built-in
    evaluator whose file was deleted is not known.
    """
    path = _path_of(name)
    own = _own.get(name)
    if own is not None or path is None:
        return own
    try:
        built_in: Evaluator = load(path)
    except ConfigurationError:
        return None
    return built_in


def _path_of(name: str) -> str | None:
    """Return where a built-in evaluator lives."""
    tables = (HEURISTICS, EXPECTED, JUDGES, LIBRARY_JUDGES)
    return next((table[name] for table in tables if name in table), None)


def is_judge(name: str) -> bool:
    """Say whether a name is that of a judge that comes with the package."""
    return name in JUDGES or name in LIBRARY_JUDGES or name.startswith("ragas:")


def predictor_of(judge: str) -> str | None:
    """Return the free score that says most about a judge's verdicts, as the judge declares."""
    name: str | None = getattr(known(judge), "predictor", None)
    return name


def question_of(judge: str) -> str | None:
    """Return what a judge asks, in words; ``None`` where this process does not know the judge."""
    asks = getattr(known(judge), "asks", None)
    question: str | None = asks() if asks is not None else None
    return question and question.strip()


def judge_model(model: object = None) -> LLM:
    """Make an LLM of a model's name or address, an LLM or a callable; ``None``: the configured one.

    Raises `ConfigurationError` where it cannot be used.
    """
    found: LLM = load("llmeval_sdk.llms:resolve")(model)
    return found


def embeddings(model: object = None, address: Mapping[str, Any] | None = None) -> Any:
    """Make what embeds texts, of a model's name and the server of the judge model's address."""
    return load("llmeval_sdk.llms.embeddings:resolve_embeddings")(model, address=address)


def exporter_factory(name: str) -> Any:
    """Find what builds an exporter by name; raises `ConfigurationError` if nothing does."""
    path = EXPORTERS.get(name)
    return load(path) if path else _from_entry_point("exporters", name)


def load(path: str) -> Any:
    """Return what ``module:attribute`` names; raises `ConfigurationError` where it was deleted."""
    module, _, attribute = path.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ConfigurationError(f"{module} is not part of this installation") from None


def part(path: str) -> Any:
    """Return what makes a part of the package; ``None`` where its files were deleted."""
    with suppress(ConfigurationError):
        return load(path)
    return None


def installed(names: Iterable[str]) -> list[str]:
    """Return those of some built-in evaluators whose files are part of this installation.

    The shelf of evaluators can be made smaller by deleting files: nothing imports them, and who
    asks for one by name is told that it is not there.
    """
    here = []
    for name in names:
        with suppress(ConfigurationError):
            here.append(evaluator(name).name)
    return here


def adapted(thing: Any) -> Judge | None:
    """Make a judge of another library's object, such as a metric of Ragas, if it is one."""
    for kind in type(thing).__mro__:
        path = ADAPTERS.get(kind.__module__.partition(".")[0])
        if path is not None:
            judge: Judge | None = load(path)(thing)
            return judge
    return None


def _from_entry_point(group: str, name: str) -> Any:
    from importlib.metadata import entry_points

    points = {point.name: point for point in entry_points(group=f"llmeval_sdk.{group}")}
    if name in points:
        return points[name].load()
    evaluators = {*HEURISTICS, *EXPECTED, *FAMILIES, *JUDGES, *LIBRARY_JUDGES, *_own}
    known = {*EXPORTERS} if group == "exporters" else evaluators
    raise ConfigurationError(f"unknown {group[:-1]} {name!r}: {nearest(name, known | set(points))}")
