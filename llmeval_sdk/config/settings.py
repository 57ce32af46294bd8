"""The tables of all areas, the frozen `Settings` that joins them, and how they are resolved."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, TypeVar

from llmeval_sdk import registry
from llmeval_sdk.config.reading import (
    DefaultLimit,
    Secret,
    allows,
    concealed,
    content,
    count,
    duration,
    flag,
    fraction,
    is_secret,
    limits,
    long_secret,
    names,
    one_of,
    pairs,
    positive,
    prices,
    secret_pairs,
    setting,
)
from llmeval_sdk.errors import ConfigurationError, nearest


# The settings of what is recorded, and of its free scores.


@dataclass(frozen=True, kw_only=True)
class RecordingSettings:
    """What is recorded, and which free scores it gets."""

    enabled: bool = setting(
        True, "LLMEVAL_ENABLED", read=flag, doc="Off leaves plain calls.", in_experiment=True
    )
    trace_sample_rate: float = setting(
        1.0,
        "LLMEVAL_TRACE_SAMPLE_RATE",
        read=fraction,
        doc="Share of traces that is recorded.",
        in_experiment=1.0,
    )
    exporters: tuple[str, ...] = setting(
        (),
        "LLMEVAL_EXPORTERS",
        read=names,
        doc="Where spans and scores go: {exporters}. Default: those that have an address here, "
        "else `local`.",
    )
    evaluators: tuple[str, ...] = setting(
        (),
        "LLMEVAL_EVALUATORS",
        "DD_LLMOBS_EVALUATORS",
        read=names,
        doc="Evaluators to add to the built-in heuristics, by name.",
        in_experiment=(),
    )
    export_fields: bool = setting(
        False,
        "LLMEVAL_EXPORT_FIELDS",
        read=flag,
        doc="Send the chance of an error of each field, too, as `<score>.field` with the tag "
        "`field`: Datadog, OTLP.",
    )
    heuristics: str = setting(
        "inline",
        "LLMEVAL_HEURISTICS",
        read=one_of("inline", "background", "off"),
        doc="Where the metadata heuristics run: `inline` (on the caller's thread), `background` "
        "(in the worker) or `off`.",
    )
    retrieved_context: str = setting(
        "last",
        "LLMEVAL_RETRIEVED_CONTEXT",
        read=one_of("last", "all"),
        doc="Judge the documents of the last retrieval of a request, or of all of them.",
    )
    retrieval_limits: Mapping[str, int] | None = setting(
        None,
        "LLMEVAL_RETRIEVAL_LIMITS",
        read=limits,
        doc='The limits of your retriever by method, `{"bm25": 20, "knn": 20}`.',
    )
    service_name: str | None = setting(
        None,
        "OTEL_SERVICE_NAME",
        "DD_SERVICE",
        doc="Name of the app in every backend; OTLP falls back on the app's own provider.",
        in_experiment="{name}",
    )


# The settings of the judges: the model, when it is asked, and what it may spend.


@dataclass(frozen=True, kw_only=True)
class JudgingSettings:
    """Which judge model is asked, when, and what it may spend."""

    judge_model: str | None = setting(
        None,
        "LLMEVAL_JUDGE_MODEL",
        doc="Model that judges, `model` or `provider/model`. Naming it allows spending.",
    )
    judge_api_key: Secret | None = setting(  # noqa: RUF009
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
    sampling_rules: str | None = setting(
        None,
        "LLMEVAL_SAMPLING_RULES",
        "DD_LLMOBS_EVALUATOR_SAMPLING_RULES",
        doc="JSON list of `{sample_rate, evaluator_label?, span_name?}` for the paid judges.",
    )
    judge_share: float | None = setting(
        None,
        "LLMEVAL_JUDGE_SHARE",
        read=fraction,
        doc="Share of the records that is judged, the riskiest first, `0.2`: extractions by"
        " `extraction_correctness`, other answers by `groundedness`. 0 is off.",
        in_experiment=0.0,
    )
    judge_control_rate: float | None = setting(
        None,
        "LLMEVAL_JUDGE_CONTROL_RATE",
        read=fraction,
        doc="With `LLMEVAL_JUDGE_SHARE`: the mean chance of the records below the riskiest, the"
        " knob between measuring (up to the share itself) and catching (`0.02`). Default: 0.45 of"
        " the share.",
    )
    escalations: str | None = setting(
        None,
        "LLMEVAL_ESCALATIONS",
        doc="JSON list of `{judge, share or when, control_rate?, by?, of?, where?, per?}`, such as "
        '`[{"judge": "groundedness", "share": 0.2, "per": "tag:tenant"}]`, in the place of the '
        "default one. `when` is `recall<0.7`, `risk>0.8` or `warning=WORD`.",
    )
    recall_threshold: float = setting(
        0.7,
        "LLMEVAL_RECALL_THRESHOLD",
        read=fraction,
        doc="`context_recall_heuristic` below it asks `context_recall_llm`.",
    )
    calls_per_minute: float = setting(
        60.0,
        "LLMEVAL_BUDGET_CALLS_PER_MINUTE",
        read=positive,
        doc="Judge calls a minute, over the processes of this host.",
    )
    usd_per_day: float = setting(
        DefaultLimit(5.0),
        "LLMEVAL_BUDGET_USD_PER_DAY",
        read=positive,
        doc="Judge money a day (UTC). Where it is set, a model of unknown price does not run.",
    )
    tokens_per_minute: float | None = setting(
        None,
        "LLMEVAL_BUDGET_TOKENS_PER_MINUTE",
        read=positive,
        doc="Judge tokens a minute. Where it is not set, 200,000 for models of unknown price.",
    )
    budget_groups: str | None = setting(
        None,
        "LLMEVAL_BUDGET_GROUPS",
        doc='JSON list of further limits of groups, `[{"usd_per_day": 0.5, "per": "tag:tenant"}]`; '
        "the keys are those of `Budget`.",
    )
    prices: Mapping[str, tuple[float, ...]] | None = setting(
        None,
        "LLMEVAL_PRICES",
        read=prices,
        doc="Prices of models in USD per million input and output tokens: `mine=0.5,1.5;other=1,2` "
        'or `{"mine": [0.5, 1.5]}`. A third and a fourth number are the prices of input that a '
        "cache had, and that it keeps. They win over the list that comes along.",
    )


# The settings of what may leave the process.


@dataclass(frozen=True, kw_only=True)
class PrivacySettings:
    """What may leave the process."""

    capture_content: bool | str = setting(
        True,
        "LLMEVAL_CAPTURE_CONTENT",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
        read=content,
        doc="`false` keeps texts out of every export; heuristics still score them. `scores` also "
        "keeps names, tags, metadata and document ids at home.",
    )
    images: str = setting(
        "mark",
        "LLMEVAL_IMAGES",
        read=one_of("mark", "keep"),
        doc="What becomes of images, sounds and files in bytes or base64, online and offline: "
        "`mark` keeps their type, size and hash, `keep` the first 131,072 characters of each, "
        "bytes as a data URL.",
    )
    redact: tuple[str, ...] = setting(
        ("api_key", "jwt"),
        "LLMEVAL_REDACT",
        read=names,
        doc="What is taken out of everything that leaves: `api_key`, `jwt`, `email`, `card`, "
        "`iban`, `phone`, `all` or `off`.",
    )


# The settings of the store, the spool and the background work.


@dataclass(frozen=True, kw_only=True)
class ProcessSettings:
    """Where records are kept, and what the background work may take."""

    store: str = setting(".llmeval/llmeval.db", "LLMEVAL_STORE", doc="File of the embedded store.")
    store_max_bytes: int = setting(
        1 << 30, "LLMEVAL_STORE_MAX_BYTES", read=count, doc="Oldest traces go above this size."
    )
    store_max_days: float = setting(
        30.0, "LLMEVAL_STORE_MAX_DAYS", read=positive, doc="Traces older than this go."
    )
    spool: str | None = setting(
        None,
        "LLMEVAL_SPOOL",
        doc="Folder of its own in which records survive the process; see `llmeval agent`.",
        in_experiment="",
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
        doc="`thread` does the background work in this process; `off` starts no thread and leaves "
        "it to `llmeval agent`, by way of the spool; `agent` is what that command sets.",
        in_experiment="thread",
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


# The settings of OTLP, which are mostly OpenTelemetry's own variables.

_protocol = one_of("http/protobuf", "grpc")
_compression = one_of("none", "gzip")


def _form(row: str, variable: str, doc: str, read: Callable[[str], object] = str) -> Any:
    """Declare a variant of the setting ``row`` that applies to spans only, or to scores only."""
    return setting(None, f"OTEL_EXPORTER_OTLP_{variable}", read=read, doc=doc, form_of=row)


@dataclass(frozen=True, kw_only=True)
class OtlpSettings:
    """What OpenTelemetry's own variables say of the exporter `otlp`."""

    otel: str = setting(
        "own",
        "LLMEVAL_OTEL",
        read=one_of("own", "global"),
        doc="`own` sends OTLP itself; `global` uses the app's own OpenTelemetry providers.",
    )
    otel_metrics: bool = setting(
        False,
        "LLMEVAL_OTEL_METRICS",
        read=flag,
        doc="Record scores as a histogram with the app's own MeterProvider.",
    )
    otel_disabled: bool = setting(
        False, "OTEL_SDK_DISABLED", read=flag, doc="Nothing is sent over OTLP."
    )
    otlp_endpoint: str | None = setting(
        None,
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        doc="OTLP server, `http://localhost:4318`; turns `otlp` on.",
    )
    otlp_traces_endpoint: str | None = _form(
        "otlp_endpoint", "TRACES_ENDPOINT", "The second is the whole address for spans."
    )
    otlp_logs_endpoint: str | None = _form(
        "otlp_endpoint", "LOGS_ENDPOINT", "The third is that for scores."
    )
    otlp_protocol: str = setting(
        "http/protobuf",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        read=_protocol,
        doc="The protocol; `grpc` needs `llmeval-inprocess[grpc]`.",
    )
    otlp_traces_protocol: str | None = _form(
        "otlp_protocol", "TRACES_PROTOCOL", "The second is for spans alone.", _protocol
    )
    otlp_logs_protocol: str | None = _form(
        "otlp_protocol", "LOGS_PROTOCOL", "The third is for scores alone.", _protocol
    )
    otlp_headers: Mapping[str, Secret] | None = setting(
        None, "OTEL_EXPORTER_OTLP_HEADERS", read=secret_pairs, doc="Headers of every request."
    )
    otlp_traces_headers: Mapping[str, Secret] | None = _form(
        "otlp_headers", "TRACES_HEADERS", "The second adds headers for spans.", secret_pairs
    )
    otlp_logs_headers: Mapping[str, Secret] | None = _form(
        "otlp_headers", "LOGS_HEADERS", "The third adds headers for scores.", secret_pairs
    )
    otlp_timeout: float = setting(
        10.0,
        "OTEL_EXPORTER_OTLP_TIMEOUT",
        read=duration,
        doc="Seconds a request may take; from 500 on, milliseconds.",
    )
    otlp_traces_timeout: float | None = _form(
        "otlp_timeout", "TRACES_TIMEOUT", "The second is for spans alone.", duration
    )
    otlp_logs_timeout: float | None = _form(
        "otlp_timeout", "LOGS_TIMEOUT", "The third is for scores alone.", duration
    )
    otlp_compression: str = setting(
        "none",
        "OTEL_EXPORTER_OTLP_COMPRESSION",
        read=_compression,
        doc="Whether what is sent is compressed.",
    )
    otlp_traces_compression: str | None = _form(
        "otlp_compression", "TRACES_COMPRESSION", "The second is for spans alone.", _compression
    )
    otlp_logs_compression: str | None = _form(
        "otlp_compression", "LOGS_COMPRESSION", "The third is for scores alone.", _compression
    )
    otlp_certificate: str | None = setting(
        None, "OTEL_EXPORTER_OTLP_CERTIFICATE", doc="File with the authorities to trust."
    )
    otlp_client_certificate: str | None = setting(
        None, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", doc="File with our certificate."
    )
    otlp_client_key: str | None = setting(
        None, "OTEL_EXPORTER_OTLP_CLIENT_KEY", doc="File with the key of our certificate."
    )
    resource_attributes: Mapping[str, str] | None = setting(
        None, "OTEL_RESOURCE_ATTRIBUTES", read=pairs, doc="Resource attributes."
    )
    phoenix_project: str | None = setting(
        None,
        "PHOENIX_PROJECT_NAME",
        doc="Project of OpenInference, such as Phoenix has. Default: the service's name.",
        in_experiment="{name}",
    )


# The settings of decision models.


@allows("`openai/gpt-6-luna`, `systemone/<model>` or `logprobs/<chat model>`")
def _model(text: str) -> str:
    return text.strip()


@allows("`https://…`, or `http://localhost:<port>/v1`")
def _address(text: str) -> str:
    return text.strip()


@allows("`judge=0.4,…`")
def _thresholds(text: str) -> Mapping[str, float]:
    return {judge: fraction(threshold) for judge, threshold in pairs(text).items()}


@dataclass(frozen=True, kw_only=True)
class DecisionSettings:
    """Which decision model is asked, and where it is."""

    decision_model: str | None = setting(
        None,
        "LLMEVAL_DECISION_MODEL",
        read=_model,
        doc="Model that answers typed questions with probabilities. What stands before the slash "
        "is the wire that its server speaks. Naming it allows spending.",
    )
    decision_base_url: str | None = setting(
        None,
        "LLMEVAL_DECISION_BASE_URL",
        read=_address,
        doc="Where it is. Default: OpenAI for `openai/…`, the judge model's server for "
        "`logprobs/…`; `systemone/…` needs one: `https://api.typesafe.ai/v1`, "
        "`https://api.upstage.ai/v1`, or that of vLLM, SGLang or llama.cpp.",
    )
    decision_path: str | None = setting(
        None,
        "LLMEVAL_DECISION_PATH",
        doc="Path of its requests below the base URL. Default: `/decisions`, `/systemone` or "
        "`/chat/completions`, by the wire. Perplexity has `systemone/…` at `/decisions`.",
    )
    decision_api_key: Secret | None = setting(  # noqa: RUF009
        None,
        "LLMEVAL_DECISION_API_KEY",
        read=Secret,
        doc="Key for it; a local server needs none. Alone it never asks a model. Where neither it "
        "nor a base URL is set, the judge model's key is used for the judge model's server.",
    )
    cascade: tuple[str, ...] = setting(
        (),
        "LLMEVAL_CASCADE",
        read=names,
        doc="Judges that the decision model answers for on all traffic, and the judge model where "
        "the probability is 0.2 to 0.8, and on a control sample of 0.05 of the rest. `Cascade` has "
        "other bounds.",
    )
    decision_thresholds: Mapping[str, float] | None = setting(
        None,
        "LLMEVAL_DECISION_THRESHOLDS",
        read=_thresholds,
        doc="By judge, the probability from which on a decision is `yes`: `groundedness=0.4`. "
        "Default: 0.5. `llmeval agreement` proposes one.",
    )
    decision_usd_per_day: float = setting(
        DefaultLimit(1.0),
        "LLMEVAL_DECISION_USD_PER_DAY",
        read=positive,
        doc="Money that decisions may cost a day (UTC), beside that of the judges. Where it is "
        "set, a decision model of unknown price does not run.",
    )
    decision_tokens_per_minute: float = setting(
        1_000_000.0,
        "LLMEVAL_DECISION_TOKENS_PER_MINUTE",
        read=positive,
        doc="Tokens of decisions a minute, over the processes of this host.",
    )


# The setting that hides the ids of users and sessions.


@dataclass(frozen=True, kw_only=True)
class IdentitySettings:
    """Whether ids of users and sessions leave the process as they are."""

    hash_ids: Secret | None = setting(  # noqa: RUF009
        None,
        "LLMEVAL_HASH_IDS",
        read=long_secret,
        doc="A key, the same on every host: `user_id` and `session_id` are then kept, sent and "
        "carried to other services only as their HMAC-SHA-256 under it. Arguments, metadata and "
        "tags of other names stay as the app wrote them.",
    )


# The settings of the verdicts that offline runs keep.


@dataclass(frozen=True, kw_only=True)
class VerdictSettings:
    """How verdicts that offline runs keep are signed."""

    verdict_key: Secret | None = setting(  # noqa: RUF009
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


_Table = TypeVar("_Table")

_CORE: dict[str, type] = {
    "Recording and scoring": RecordingSettings,
    "Judges": JudgingSettings,
    "Privacy": PrivacySettings,
    "Store, spool and background work": ProcessSettings,
    "OpenTelemetry": OtlpSettings,
    "Decision models": DecisionSettings,
    "Ids of users and sessions": IdentitySettings,
    "Verdicts that offline runs keep": VerdictSettings,
}


@dataclass(frozen=True, kw_only=True)
class Settings(
    RecordingSettings,
    JudgingSettings,
    PrivacySettings,
    ProcessSettings,
    OtlpSettings,
):
    """The whole configuration, resolved and valid.

    The tables of the core are independent of each other; their fields stand here side by side.
    """

    extensions: Mapping[type, Any] = field(default_factory=dict)
    """The tables of plugins by class. A table that is missing has all its defaults."""

    def of(self, table: type[_Table]) -> _Table:
        """Return a table that stands apart, such as that of a plugin."""
        settings: _Table = self.extensions.get(table) or table()
        return settings


@cache
def areas() -> dict[str, type]:
    """Return the tables of the core and of the plugins, by the title of their area."""
    tables = dict(_CORE)
    for plugin in registry.plugins():
        for title, address in plugin.settings.items():
            tables[title] = plugin.resolve(address)
    return tables


@cache
def rows() -> tuple[Any, ...]:
    """Return the rows of all tables. A row is a dataclass field that `setting` made."""
    return tuple(row for table in areas().values() for row in fields(table))


# The environment and the options of `configure` become `Settings`.


def from_environment(
    environ: Mapping[str, str] | None = None,
    *,
    problems: list[str] | None = None,
    **options: object,
) -> Settings:
    """Resolve the settings: options win over the environment, and that over the defaults.

    If a variable has a bad value, its setting keeps the default and ``problems`` gets a line about
    it. Without ``problems``, `ConfigurationError` is raised.
    """
    env = _environment(environ)
    values = _checked(options)
    wanted = [row for row in rows() if row.name not in values]
    values.update(_read(wanted, env, problems))
    if problems is not None:
        problems.extend(_misspelt(env))
    core, extensions = {}, {}
    for table in areas().values():
        own = {row.name: values[row.name] for row in fields(table) if row.name in values}
        if issubclass(Settings, table):
            core.update(own)
        elif own:
            extensions[table] = table(**own)
    return Settings(**core, extensions=extensions)


def _checked(options: Mapping[str, object]) -> dict[str, Any]:
    """Return the settings that code gives a value to, with its secrets concealed."""
    known = {row.name: row for row in rows()}
    values = {}
    for name, value in options.items():
        if name not in known:
            raise ConfigurationError(f"unknown setting {name!r}: {nearest(name, known)}")
        if value is None:
            continue
        try:
            values[name] = concealed(value, known[name].metadata["read"])
        except ValueError as problem:  # only a secret is read here
            raise ConfigurationError(f"{name}=***: {problem}") from None
    return values


def read(
    table: type[_Table],
    environ: Mapping[str, str] | None = None,
    *,
    problems: list[str] | None = None,
) -> _Table:
    """Read a table of settings that belongs to another room, such as an exporter's own.

    Bad values are treated as in `from_environment`.
    """
    return table(**_read(fields(table), _environment(environ), problems))  # type: ignore[arg-type]


def in_experiment(name: str) -> dict[str, Any]:
    """Return the settings that an offline experiment has in the place of the app's.

    They keep its records apart from those of the app, and have it evaluate its rows alone.
    """
    wanted = {row.name: row.metadata["in_experiment"] for row in rows()}
    return {
        setting: value.replace("{name}", name) if isinstance(value, str) else value
        for setting, value in wanted.items()
        if value is not None
    }


def _environment(environ: Mapping[str, str] | None) -> Mapping[str, str]:
    return os.environ if environ is None else environ  # noqa: TID251 - the one reader


def _read(
    rows: Iterable[Any], env: Mapping[str, str], problems: list[str] | None
) -> dict[str, object]:
    """Read the rows that the environment sets."""
    values = {}
    for row in rows:
        for variable in row.metadata["env"]:
            text = env.get(variable)
            if text is None or (not text.strip() and row.metadata["read"] is not names):
                continue
            try:
                values[row.name] = row.metadata["read"](text)
            except ValueError as problem:
                shown = "***" if is_secret(row.metadata["read"]) else repr(text[:80])
                line = f"{variable}={shown}: {problem}; using the default"
                if problems is None:
                    raise ConfigurationError(line) from None
                problems.append(line)
            break
    return values


def _misspelt(env: Mapping[str, str]) -> list[str]:
    ours = {variable for row in rows() for variable in row.metadata["env"]}
    return [
        f"{name} is not a setting: {nearest(name, (n for n in ours if n.startswith('LLMEVAL_')))}"
        for name in sorted(env)
        if name.startswith("LLMEVAL_") and name not in ours
    ]


def value_of(settings: Settings, name: str) -> Any:
    """Return the value of a setting by its name, whichever table has it; ``None`` if none has."""
    for table in areas().values():
        if any(row.name == name for row in fields(table)):
            return getattr(settings if issubclass(Settings, table) else settings.of(table), name)
    return None


def source_of(name: str, environ: Mapping[str, str] | None = None) -> str:
    """Say where a setting's value came from: a variable's name, or ``default``."""
    env = _environment(environ)
    row = next(row for row in rows() if row.name == name)
    return next((variable for variable in row.metadata["env"] if env.get(variable)), "default")


def variables(prefix: str, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the variables that are set and whose names begin with a prefix."""
    env = _environment(environ)
    return tuple(sorted(name for name in env if name.startswith(prefix)))


@contextmanager
def hidden(name: str) -> Iterator[None]:
    """Hide a variable while a library is imported that its value would break."""
    env = os.environ  # noqa: TID251 - the one reader
    text = env.pop(name, None)
    try:
        yield
    finally:
        if text is not None:
            env[name] = text


def openai_headers(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the headers that tell OpenAI whose request it is, as the environment has them.

    The ``openai`` client sends the same ones: the organization, the project, and custom headers,
    such as those for a gateway.
    """
    env = _environment(environ)
    own = (line.partition(":") for line in env.get("OPENAI_CUSTOM_HEADERS", "").splitlines())
    headers = {
        "openai-organization": env.get("OPENAI_ORG_ID", ""),
        "openai-project": env.get("OPENAI_PROJECT_ID", ""),
        **{name.strip().lower(): value.strip() for name, _, value in own},
    }
    return {name: value for name, value in headers.items() if name and value}
