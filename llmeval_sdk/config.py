"""Every setting in one table, and the only place that reads the environment.

A setting is a field of `Settings`; its row says which variables set it (the first one that is set
wins), how the text is read, and what it is for. README's table is printed from here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from llmeval_sdk.errors import ConfigurationError, nearest


class Secret:
    """Text that never prints: its repr, str and pickle do not hold it."""

    __slots__ = ("_reveal",)

    def __init__(self, text: str) -> None:
        self._reveal: Callable[[], str] = lambda: text

    def reveal(self) -> str:
        """Return the text itself, for the one place that sends it."""
        return self._reveal()

    def __repr__(self) -> str:
        return "Secret('***')"

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return (Secret, ("***",))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.reveal() == self.reveal()

    def __hash__(self) -> int:
        return hash(self.reveal())


def _flag(text: str) -> bool:
    word = text.strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off", ""):
        return False
    raise ValueError("expected true or false")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def _fraction(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 1:
        raise ValueError("expected a number from 0 to 1")
    return number


def _positive(text: str) -> float:
    number = float(text)
    if not 0 <= number < float("inf"):
        raise ValueError("expected a number of at least 0")
    return number


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError("expected a whole number of at least 0")
    return number


def _limits(text: str) -> Mapping[str, int]:
    try:
        limits = json.loads(text)
    except json.JSONDecodeError:
        limits = None
    if not isinstance(limits, dict) or not all(
        type(count) is int and count > 0 for count in limits.values()
    ):
        raise ValueError('expected JSON such as {"bm25": 20, "knn": 20}')
    return limits


def _content(text: str) -> bool:
    """Read our own switch, or OpenTelemetry's words for where message content may go."""
    word = text.strip().upper()
    if word in ("NO_CONTENT", "SPAN_ONLY", "EVENT_ONLY", "SPAN_AND_EVENT"):
        return word != "NO_CONTENT"
    return _flag(text)


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        word = text.strip().lower()
        if word not in words:
            raise ValueError(f"{nearest(word, words)}")
        return word

    return read


def setting(
    default: Any, *env: str, read: Callable[[str], Any] = str, doc: str, inverted: bool = False
) -> Any:
    """Declare one row of the table."""
    return field(
        default=default, metadata={"env": env, "read": read, "doc": doc, "inverted": inverted}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The whole configuration, resolved and valid."""

    enabled: bool = setting(True, "LLMEVAL_ENABLED", read=_flag, doc="Off leaves plain calls.")
    exporters: tuple[str, ...] = setting(
        (),
        "LLMEVAL_EXPORTERS",
        read=_names,
        doc="Where spans and scores go: `local`, `console`, `memory`. Default: `local`.",
    )
    evaluators: tuple[str, ...] = setting(
        (),
        "LLMEVAL_EVALUATORS",
        "DD_LLMOBS_EVALUATORS",
        read=_names,
        doc="Evaluators to add to the built-in heuristics, by name.",
    )
    sampling_rules: str | None = setting(
        None,
        "LLMEVAL_SAMPLING_RULES",
        "DD_LLMOBS_EVALUATOR_SAMPLING_RULES",
        doc="JSON list of `{sample_rate, evaluator_label?, span_name?}` for the paid judges.",
    )
    heuristics: str = setting(
        "inline",
        "LLMEVAL_HEURISTICS",
        read=_one_of("inline", "background", "off"),
        doc="Where the metadata heuristics run: on the caller's thread, in the worker, or nowhere.",
    )
    store: str = setting(".llmeval/llmeval.db", "LLMEVAL_STORE", doc="File of the embedded store.")
    store_max_bytes: int = setting(
        1 << 30, "LLMEVAL_STORE_MAX_BYTES", read=_count, doc="Oldest traces go above this size."
    )
    store_max_days: float = setting(
        30.0, "LLMEVAL_STORE_MAX_DAYS", read=_positive, doc="Traces older than this go."
    )
    judge_model: str | None = setting(
        None,
        "LLMEVAL_JUDGE_MODEL",
        doc="Model that judges, `model` or `provider/model`. Naming it allows spending.",
    )
    judge_api_key: Secret | None = setting(
        None,
        "LLMEVAL_JUDGE_API_KEY",
        "OPENAI_API_KEY",
        read=Secret,
        doc="Key for the judge model. Alone it never starts a judge.",
    )
    judge_base_url: str | None = setting(
        None,
        "LLMEVAL_JUDGE_BASE_URL",
        "OPENAI_BASE_URL",
        doc="Any OpenAI-compatible server.",
    )
    judge_timeout: float = setting(
        60.0, "LLMEVAL_JUDGE_TIMEOUT", read=_positive, doc="Seconds one judgement may take."
    )
    judge_concurrency: int = setting(
        8, "LLMEVAL_JUDGE_CONCURRENCY", read=_count, doc="Judgements at a time."
    )
    calls_per_minute: float = setting(
        60.0,
        "LLMEVAL_BUDGET_CALLS_PER_MINUTE",
        read=_positive,
        doc="Judge calls a minute, over the processes of this host.",
    )
    usd_per_day: float = setting(
        5.0,
        "LLMEVAL_BUDGET_USD_PER_DAY",
        read=_positive,
        doc="Judge money a day (UTC), where the model's price is known.",
    )
    recall_threshold: float = setting(
        0.7,
        "LLMEVAL_RECALL_THRESHOLD",
        read=_fraction,
        doc="`context_recall_heuristic` below it asks `context_recall_llm`.",
    )
    retrieval_limits: Mapping[str, int] | None = setting(
        None,
        "LLMEVAL_RETRIEVAL_LIMITS",
        read=_limits,
        doc='The limits of your retriever by method, `{"bm25": 20, "knn": 20}`.',
    )
    retrieved_context: str = setting(
        "last",
        "LLMEVAL_RETRIEVED_CONTEXT",
        read=_one_of("last", "all"),
        doc="Judge the documents of the last retrieval of a request, or of all of them.",
    )
    capture_content: bool = setting(
        True,
        "LLMEVAL_CAPTURE_CONTENT",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
        read=_content,
        doc="Off keeps texts out of every export; heuristics still score them.",
    )
    trace_sample_rate: float = setting(
        1.0, "LLMEVAL_TRACE_SAMPLE_RATE", read=_fraction, doc="Share of traces that is recorded."
    )
    queue_records: int = setting(
        20_000, "LLMEVAL_QUEUE_RECORDS", read=_count, doc="Finished spans that may wait."
    )
    queue_bytes: int = setting(
        32 << 20, "LLMEVAL_QUEUE_BYTES", read=_count, doc="Bytes of finished spans that may wait."
    )
    background_share: float = setting(
        0.5,
        "LLMEVAL_BACKGROUND_SHARE",
        read=_fraction,
        doc="Share of one core that scoring in the background may take.",
    )
    shutdown_timeout: float = setting(
        1.0, "LLMEVAL_SHUTDOWN_TIMEOUT", read=_positive, doc="Seconds that exit may wait for us."
    )


ROWS: tuple[Any, ...] = fields(Settings)
"""The rows of the table, as dataclass fields whose metadata has ``env``, ``read`` and ``doc``."""


def from_environment(
    environ: Mapping[str, str] | None = None, *, problems: list[str] | None = None, **given: Any
) -> Settings:
    """Resolve the settings: what is given wins over the environment, and that over the default.

    A bad value in the environment is left at its default and described in one line of ``problems``,
    or raises `ConfigurationError` where the caller passes none.
    """
    env = os.environ if environ is None else environ  # noqa: TID251 - the one reader
    known = {row.name for row in ROWS}
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise ConfigurationError(f"unknown setting {name!r}: {nearest(name, known)}")
        if value is not None:
            values[name] = value
    for row in ROWS:
        if row.name in values:
            continue
        for variable in row.metadata["env"]:
            text = env.get(variable)
            if text is None or (not text.strip() and row.metadata["read"] is not _names):
                continue
            try:
                values[row.name] = row.metadata["read"](text)
            except ValueError as problem:
                line = f"{variable}={_shown(variable, text)}: {problem}; using the default"
                if problems is None:
                    raise ConfigurationError(line) from None
                problems.append(line)
            break
    problems_out = problems if problems is not None else []
    problems_out.extend(_misspelt(env))
    return Settings(**values)


def _shown(variable: str, text: str) -> str:
    return "***" if "KEY" in variable else repr(text[:80])


def _misspelt(env: Mapping[str, str]) -> list[str]:
    ours = {variable for row in ROWS for variable in row.metadata["env"]}
    return [
        f"{name} is not a setting: {nearest(name, (n for n in ours if n.startswith('LLMEVAL_')))}"
        for name in sorted(env)
        if name.startswith("LLMEVAL_") and name not in ours
    ]


def source_of(name: str, environ: Mapping[str, str] | None = None) -> str:
    """Say where a setting's value came from: a variable's name, or ``default``."""
    env = os.environ if environ is None else environ  # noqa: TID251 - the one reader
    row = next(row for row in ROWS if row.name == name)
    return next((variable for variable in row.metadata["env"] if env.get(variable)), "default")


def table() -> str:
    """Print the settings as a Markdown table, for README."""
    lines = ["| variable | default | what it is |", "| --- | --- | --- |"]
    for row in ROWS:
        names = ", ".join(f"`{variable}`" for variable in row.metadata["env"])
        lines.append(f"| {names} | {_default(row.default)} | {row.metadata['doc']} |")
    return "\n".join(lines) + "\n"


def _default(value: Any) -> str:
    if value is None or value == ():
        return "–"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
