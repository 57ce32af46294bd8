"""Every setting in one table, and the only place that reads the environment.

A setting is a field of `Settings`; its row says which variables set it (the first one that is set
wins), how the text is read, and what it is for. README's table is printed from here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any
from warnings import warn

from llmeval_sdk._setting import (
    Secret,
    content,
    count,
    flag,
    fraction,
    limits,
    long_secret,
    names,
    one_of,
    positive,
    prices,
    setting,
)
from llmeval_sdk._settings_datadog import DatadogSettings
from llmeval_sdk.errors import ConfigurationError, nearest


__all__ = ["ROWS", "Secret", "Settings", "from_environment", "source_of", "table"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(DatadogSettings):
    """The whole configuration, resolved and valid."""

    enabled: bool = setting(True, "LLMEVAL_ENABLED", read=flag, doc="Off leaves plain calls.")
    exporters: tuple[str, ...] = setting(
        (),
        "LLMEVAL_EXPORTERS",
        read=names,
        doc="Where spans and scores go: `local`, `console`, `memory`, `otlp`, `datadog`, `phoenix`,"
        " `mlflow`. Default: those that have an address here, else `local`.",
    )
    evaluators: tuple[str, ...] = setting(
        (),
        "LLMEVAL_EVALUATORS",
        "DD_LLMOBS_EVALUATORS",
        read=names,
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
        read=one_of("inline", "background", "off"),
        doc="Where the metadata heuristics run: `inline` (on the caller's thread), `background` "
        "(in the worker) or `off`.",
    )
    store: str = setting(".llmeval/llmeval.db", "LLMEVAL_STORE", doc="File of the embedded store.")
    store_max_bytes: int = setting(
        1 << 30, "LLMEVAL_STORE_MAX_BYTES", read=count, doc="Oldest traces go above this size."
    )
    store_max_days: float = setting(
        30.0, "LLMEVAL_STORE_MAX_DAYS", read=positive, doc="Traces older than this go."
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
        60.0, "LLMEVAL_JUDGE_TIMEOUT", read=positive, doc="Seconds one judgement may take."
    )
    judge_concurrency: int = setting(
        8, "LLMEVAL_JUDGE_CONCURRENCY", read=count, doc="Judgements at a time."
    )
    calls_per_minute: float = setting(
        60.0,
        "LLMEVAL_BUDGET_CALLS_PER_MINUTE",
        read=positive,
        doc="Judge calls a minute, over the processes of this host.",
    )
    usd_per_day: float = setting(
        5.0,
        "LLMEVAL_BUDGET_USD_PER_DAY",
        read=positive,
        doc="Judge money a day (UTC), where the model's price is known.",
    )
    tokens_per_minute: float | None = setting(
        None,
        "LLMEVAL_BUDGET_TOKENS_PER_MINUTE",
        read=positive,
        doc="Judge tokens a minute. Where it is not set, 200,000 for models of unknown price.",
    )
    prices: Mapping[str, tuple[float, float]] | None = setting(
        None,
        "LLMEVAL_PRICES",
        read=prices,
        doc="Prices of models in USD per million input and output tokens: `mine=0.5,1.5;other=1,2` "
        'or `{"mine": [0.5, 1.5]}`. They win over the list that comes along.',
    )
    verdict_key: Secret | None = setting(
        None,
        "LLMEVAL_VERDICT_KEY",
        read=long_secret,
        doc="Secret that signs the kept verdicts of offline runs, for CI: a verdict without its "
        "signature is judged anew. Default: made per machine.",
    )
    state: str = setting(
        "~/.local/state/llmeval",
        "LLMEVAL_STATE",
        doc="Folder of what belongs to this user and machine, outside any checkout: the key of "
        "kept verdicts.",
    )
    judge_share: float | None = setting(
        None,
        "LLMEVAL_JUDGE_SHARE",
        "LLMEVAL_JUDGE_BUDGET",
        read=fraction,
        doc="Share of the records, the riskiest, that is judged, `0.2`: extractions by"
        " `extraction_correctness`, other answers by `groundedness`. 0 is off."
        " `LLMEVAL_JUDGE_BUDGET` is its former name.",
    )
    recall_threshold: float = setting(
        0.7,
        "LLMEVAL_RECALL_THRESHOLD",
        read=fraction,
        doc="`context_recall_heuristic` below it asks `context_recall_llm`.",
    )
    retrieval_limits: Mapping[str, int] | None = setting(
        None,
        "LLMEVAL_RETRIEVAL_LIMITS",
        read=limits,
        doc='The limits of your retriever by method, `{"bm25": 20, "knn": 20}`.',
    )
    retrieved_context: str = setting(
        "last",
        "LLMEVAL_RETRIEVED_CONTEXT",
        read=one_of("last", "all"),
        doc="Judge the documents of the last retrieval of a request, or of all of them.",
    )
    capture_content: bool | str = setting(
        True,
        "LLMEVAL_CAPTURE_CONTENT",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
        read=content,
        doc="`false` keeps texts out of every export; heuristics still score them. `scores` also "
        "keeps names, tags, metadata and document ids at home.",
    )
    redact: tuple[str, ...] = setting(
        ("api_key", "jwt"),
        "LLMEVAL_REDACT",
        read=names,
        doc="What is taken out of everything that leaves: `api_key`, `jwt`, `email`, `card`, "
        "`iban`, `phone`, `all` or `off`.",
    )
    spool: str | None = setting(
        None,
        "LLMEVAL_SPOOL",
        doc="Folder of its own in which records survive the process; see `llmeval agent`.",
    )
    spool_bytes: int = setting(
        16 << 20, "LLMEVAL_SPOOL_BYTES", read=count, doc="Size of one process's file there."
    )
    spool_max_bytes: int = setting(
        1 << 30, "LLMEVAL_SPOOL_MAX_BYTES", read=count, doc="What all files there may take."
    )
    worker: str = setting(
        "thread",
        "LLMEVAL_WORKER",
        read=one_of("thread", "off", "agent"),
        doc="`off`: no threads, `llmeval agent` takes the records from the spool; `agent`: be it.",
    )
    trace_sample_rate: float = setting(
        1.0, "LLMEVAL_TRACE_SAMPLE_RATE", read=fraction, doc="Share of traces that is recorded."
    )
    queue_records: int = setting(
        20_000, "LLMEVAL_QUEUE_RECORDS", read=count, doc="Finished spans that may wait."
    )
    queue_bytes: int = setting(
        32 << 20, "LLMEVAL_QUEUE_BYTES", read=count, doc="Bytes of finished spans that may wait."
    )
    background_share: float = setting(
        0.5,
        "LLMEVAL_BACKGROUND_SHARE",
        read=fraction,
        doc="Share of one core that scoring in the background may take.",
    )
    shutdown_timeout: float = setting(
        1.0, "LLMEVAL_SHUTDOWN_TIMEOUT", read=positive, doc="Seconds that exit may wait for us."
    )
    judge_control_rate: float | None = setting(
        None,
        "LLMEVAL_JUDGE_CONTROL_RATE",
        read=fraction,
        doc="With `LLMEVAL_JUDGE_SHARE`: the mean chance of the records below the riskiest, the"
        " knob between measuring (up to the share itself) and catching (`0.02`). Default: 0.45 of"
        " the share.",
    )
    alert_webhook: Secret | None = setting(
        None,
        "LLMEVAL_ALERT_WEBHOOK",
        read=Secret,
        doc="Address that `llmeval watch` tells alarms to, by an HTTP POST of JSON.",
    )
    alert_token: Secret | None = setting(
        None,
        "LLMEVAL_ALERT_TOKEN",
        read=Secret,
        doc="Sent with it as `Authorization: Bearer …`.",
    )
    alert_format: str | None = setting(
        None,
        "LLMEVAL_ALERT_FORMAT",
        doc="`generic` or `slack`. Default: `slack` for an address at hooks.slack.com.",
    )
    viewer_url: str = setting(
        "http://127.0.0.1:8520",
        "LLMEVAL_VIEWER_URL",
        doc="Where people reach `llmeval view`: alarms link to it.",
    )


FORMER_NAMES = {"judge_budget": "judge_share"}
"""Names that `configure` takes until version 0.3."""

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
    for former, name in FORMER_NAMES.items():
        if former in given:
            warn(f"{former} is called {name} now", DeprecationWarning, stacklevel=4)
            given.setdefault(name, given.pop(former))
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
            if text is None or (not text.strip() and row.metadata["read"] is not names):
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
    hidden = any(word in variable for word in ("KEY", "HEADERS", "TOKEN", "PASSWORD"))
    return "***" if hidden else repr(text[:80])


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


def variables(prefix: str, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the variables that are set and whose names begin with a prefix."""
    env = os.environ if environ is None else environ  # noqa: TID251 - the one reader
    return tuple(sorted(name for name in env if name.startswith(prefix)))


@contextmanager
def hidden(name: str) -> Iterator[None]:
    """Hide a variable from a library that would stumble over it while it is imported."""
    env = os.environ  # noqa: TID251 - the one reader
    text = env.pop(name, None)
    try:
        yield
    finally:
        if text is not None:
            env[name] = text


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


if __name__ == "__main__":
    import sys

    sys.stdout.write(table())
