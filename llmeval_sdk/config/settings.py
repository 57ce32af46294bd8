"""The tables of all areas, the frozen `Settings` that joins them, and how they are resolved."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from llmeval_sdk import registry
from llmeval_sdk.config.reading import (
    DEFAULT,
    IDS,
    JUDGES,
    DefaultLimit,
    Row,
    Secret,
    Table,
    address,
    allows,
    content,
    count,
    duration,
    expected,
    file,
    flag,
    fraction,
    json_list,
    limits,
    long_secret,
    names,
    one_of,
    pairs,
    path,
    positive,
    prices,
    secret,
    secret_pairs,
    server,
    setting,
    some_of,
    text,
    without_content,
)
from llmeval_sdk.errors import ConfigurationError, nearest


# The settings of what is recorded, and of its free scores.


@allows("names with commas between")
def _exporters(value: object) -> tuple[str, ...]:
    wanted = names(value)
    if isinstance(value, str) and not wanted:
        raise ValueError
    return wanted


class RecordingSettings(Table):
    """What is recorded, and which free scores it gets."""

    enabled: bool = setting(
        True,
        "LLMEVAL_ENABLED",
        read=flag,
        doc="Off leaves plain calls.",
        careful=False,
        in_experiment=True,
    )
    trace_sample_rate: float = setting(
        1.0,
        "LLMEVAL_TRACE_SAMPLE_RATE",
        read=fraction,
        doc="Share of traces that is recorded.",
        careful=0.0,
        in_experiment=1.0,
    )
    exporters: tuple[str, ...] = setting(
        (),
        "LLMEVAL_EXPORTERS",
        read=_exporters,
        doc="Where spans and scores go: {exporters}. Default: those that have an address here, "
        "else `local`.",
        careful=("local",),
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
        doc="When the metadata heuristics run: `inline` (once the app reads their scores, at the "
        "latest in the worker), `background` (in the worker) or `off`.",
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


class JudgingSettings(Table):
    """Which judge model is asked, when, and what it may spend."""

    judge_model: str | None = setting(
        None,
        "LLMEVAL_JUDGE_MODEL",
        doc="Model that judges, `model` or `provider/model`. Naming it allows spending.",
    )
    judge_api_key: Secret | None = setting(
        None,
        "LLMEVAL_JUDGE_API_KEY",
        "OPENAI_API_KEY",
        read=secret,
        doc="Key for the judge model. Alone it never starts a judge.",
    )
    judge_base_url: str | None = setting(
        None,
        "LLMEVAL_JUDGE_BASE_URL",
        "OPENAI_BASE_URL",
        read=address,
        doc="Any OpenAI-compatible server.",
        closes=JUDGES,
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
        read=json_list,
        closes=JUDGES,
        doc="JSON list of `{sample_rate, evaluator_label?, span_name?}` for the paid judges.",
    )
    judge_share: float | None = setting(
        None,
        "LLMEVAL_JUDGE_SHARE",
        read=fraction,
        doc="Share of the records that is judged, the riskiest first, `0.2`: extractions by"
        " `extraction_correctness`, other answers by `groundedness`. 0 is off.",
        careful=0.0,
        in_experiment=0.0,
    )
    escalations: str | None = setting(
        None,
        "LLMEVAL_ESCALATIONS",
        read=json_list,
        closes=JUDGES,
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
        careful=0.0,
    )
    usd_per_day: float = setting(
        DefaultLimit(5.0),
        "LLMEVAL_BUDGET_USD_PER_DAY",
        read=positive,
        doc="Judge money a day (UTC). Where it is set, a model of unknown price does not run.",
        careful=0.0,
    )
    tokens_per_minute: float | None = setting(
        None,
        "LLMEVAL_BUDGET_TOKENS_PER_MINUTE",
        read=positive,
        doc="Judge tokens a minute. Where it is not set, 200,000 for models of unknown price.",
        careful=0.0,
    )
    budget_groups: str | None = setting(
        None,
        "LLMEVAL_BUDGET_GROUPS",
        read=json_list,
        closes=JUDGES,
        doc='JSON list of further limits of groups, `[{"usd_per_day": 0.5, "per": "tag:tenant"}]`; '
        "the keys are those of `Budget`.",
    )
    prices: Mapping[str, tuple[float, ...]] | None = setting(
        None,
        "LLMEVAL_PRICES",
        read=prices,
        closes=JUDGES,
        doc="Prices of models in USD per million input and output tokens: `mine=0.5,1.5;other=1,2` "
        'or `{"mine": [0.5, 1.5]}`. A third and a fourth number are the prices of input that a '
        "cache had, and that it keeps. They win over the list that comes along.",
    )


# The settings of what may leave the process.


DETECTORS = ("api_key", "jwt", "iban", "card", "email", "phone")
"""The names of what `exporters.redaction` detects."""
_some_detectors = some_of(*DETECTORS)


@allows(
    f"{', '.join(f'`{name}`' for name in DETECTORS)}, with commas between; `all` for everything "
    "that can be detected, or `off` for nothing",
    *DETECTORS,
    "all",
    "off",
)
def _detectors(value: object) -> tuple[str, ...]:
    word = names(value)
    return word if word in (("all",), ("off",)) else _some_detectors(value)


class PrivacySettings(Table):
    """What may leave the process."""

    capture_content: bool | str = setting(
        True,
        "LLMEVAL_CAPTURE_CONTENT",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
        read=content,
        careful=without_content,
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
        read=_detectors,
        careful=("all",),
        doc="What is taken out of everything that leaves.",
    )


# The settings of the store, the spool and the background work.


class ProcessSettings(Table):
    """Where records are kept, and what the background work may take."""

    store: str = setting(
        ".llmeval/llmeval.db", "LLMEVAL_STORE", read=path, doc="File of the embedded store."
    )
    store_max_bytes: int = setting(
        1 << 30, "LLMEVAL_STORE_MAX_BYTES", read=count, doc="Oldest traces go above this size."
    )
    store_max_days: float = setting(
        30.0, "LLMEVAL_STORE_MAX_DAYS", read=positive, doc="Traces older than this go."
    )
    spool: str | None = setting(
        None,
        "LLMEVAL_SPOOL",
        read=path,
        doc="Folder of its own in which records survive the process; see `llmeval agent`.",
        in_experiment="",
    )
    worker: str = setting(
        "thread",
        "LLMEVAL_WORKER",
        read=one_of("thread", "off", "agent"),
        doc="`thread` does the background work in this process; `off` starts no thread and leaves "
        "it to `llmeval agent`, by way of the spool; `agent` is what that command sets.",
        in_experiment="thread",
    )
    background_share: float = setting(
        1.0,
        "LLMEVAL_BACKGROUND_SHARE",
        read=fraction,
        doc="Share of one core that the background of each process may take when much waits; else "
        "it is half a core. Eight workers may take eight shares. It is never more than half of "
        "what a process may use by affinity and cgroup.",
    )
    shutdown_timeout: float | None = setting(
        None,
        "LLMEVAL_SHUTDOWN_TIMEOUT",
        read=positive,
        doc="Seconds that exit may wait for us; unset, it waits while records are delivered, until "
        "nothing arrives for half a second, and 10 seconds at most.",
    )


# The settings of OTLP, which are mostly OpenTelemetry's own variables.

_protocol = one_of("http/protobuf", "grpc")
_compression = one_of("none", "gzip")


_OTLP = "otlp"


def _form(
    row: str,
    variable: str,
    doc: str,
    read: Callable[[Any], object] = text,
    closes: str | None = None,
) -> Any:
    """Declare a variant of the setting ``row`` that applies to spans only, or to scores only."""
    return setting(
        None, f"OTEL_EXPORTER_OTLP_{variable}", read=read, doc=doc, closes=closes, form_of=row
    )


@allows("`true`; anything else is false")
def _true(value: object) -> bool:
    if isinstance(value, str) and value.strip().lower() not in ("true", "false"):
        raise ValueError
    return flag(value)


class OtlpSettings(Table):
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
        False, "OTEL_SDK_DISABLED", read=_true, doc="Nothing is sent over OTLP."
    )
    otlp_endpoint: str | None = setting(
        None,
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        read=server,
        doc="OTLP server, `http://localhost:4318`; turns `otlp` on.",
        closes=_OTLP,
    )
    otlp_traces_endpoint: str | None = _form(
        "otlp_endpoint",
        "TRACES_ENDPOINT",
        "The second is the whole address for spans.",
        server,
        _OTLP,
    )
    otlp_logs_endpoint: str | None = _form(
        "otlp_endpoint", "LOGS_ENDPOINT", "The third is that for scores.", server, _OTLP
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
        None,
        "OTEL_EXPORTER_OTLP_HEADERS",
        read=secret_pairs,
        doc="Headers of every request.",
        closes=_OTLP,
    )
    otlp_traces_headers: Mapping[str, Secret] | None = _form(
        "otlp_headers", "TRACES_HEADERS", "The second adds headers for spans.", secret_pairs, _OTLP
    )
    otlp_logs_headers: Mapping[str, Secret] | None = _form(
        "otlp_headers", "LOGS_HEADERS", "The third adds headers for scores.", secret_pairs, _OTLP
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
    otlp_compression: str | None = setting(
        None,
        "OTEL_EXPORTER_OTLP_COMPRESSION",
        read=_compression,
        doc="Whether what is sent is compressed; unset, it is over HTTP, and is not over gRPC.",
    )
    otlp_traces_compression: str | None = _form(
        "otlp_compression", "TRACES_COMPRESSION", "The second is for spans alone.", _compression
    )
    otlp_logs_compression: str | None = _form(
        "otlp_compression", "LOGS_COMPRESSION", "The third is for scores alone.", _compression
    )
    otlp_certificate: str | None = setting(
        None,
        "OTEL_EXPORTER_OTLP_CERTIFICATE",
        read=file,
        doc="File with the authorities to trust.",
        closes=_OTLP,
    )
    otlp_client_certificate: str | None = setting(
        None,
        "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
        read=file,
        doc="File with our certificate.",
        closes=_OTLP,
    )
    otlp_client_key: str | None = setting(
        None,
        "OTEL_EXPORTER_OTLP_CLIENT_KEY",
        read=file,
        doc="File with the key of our certificate.",
        closes=_OTLP,
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
def _model(value: object) -> str:
    return text(value)


class DecisionSettings(Table):
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
        read=address,
        closes=JUDGES,
        doc="Where it is. Default: OpenAI for `openai/…`, the judge model's server for "
        "`logprobs/…`; `systemone/…` needs one: `https://api.typesafe.ai/v1`, "
        "`https://api.upstage.ai/v1`, or that of vLLM, SGLang or llama.cpp.",
    )
    decision_api_key: Secret | None = setting(
        None,
        "LLMEVAL_DECISION_API_KEY",
        read=secret,
        doc="Key for it; a local server needs none. Alone it never asks a model. Where neither it "
        "nor a base URL is set, the judge model's key is used for the judge model's server.",
    )


# The setting that hides the ids of users and sessions.


class IdentitySettings(Table):
    """Whether ids of users and sessions leave the process as they are."""

    hash_ids: Secret | None = setting(
        None,
        "LLMEVAL_HASH_IDS",
        read=long_secret,
        closes=IDS,
        doc="A key, the same on every host: `user_id` and `session_id` are then kept, sent and "
        "carried to other services only as their HMAC-SHA-256 under it. Arguments, metadata and "
        "tags of other names stay as the app wrote them.",
    )


_AnyTable = TypeVar("_AnyTable", bound=Table)

_CORE: dict[str, type[Table]] = {
    "Recording and scoring": RecordingSettings,
    "Judges": JudgingSettings,
    "Privacy": PrivacySettings,
    "Store, spool and background work": ProcessSettings,
    "OpenTelemetry": OtlpSettings,
    "Decision models": DecisionSettings,
    "Ids of users and sessions": IdentitySettings,
}


class Settings(
    RecordingSettings,
    JudgingSettings,
    PrivacySettings,
    ProcessSettings,
    OtlpSettings,
):
    """The whole configuration, resolved and valid.

    The tables of the core are independent of each other; their settings stand here side by side.

    Args:
        extensions: the tables of plugins by class. A table that is missing has all its defaults.
        closed: what is off because a variable cannot be read, `JUDGES`, `IDS` or the name of an
            exporter, with the reason.
        unreadable: the settings whose variables cannot be read.
        values: settings by their names; the others have their defaults.
    """

    extensions: Mapping[type, Any]
    closed: Mapping[str, str]
    unreadable: Collection[str]

    def __init__(
        self,
        *,
        extensions: Mapping[type, Any] | None = None,
        closed: Mapping[str, str] | None = None,
        unreadable: Collection[str] = (),
        **values: Any,
    ) -> None:
        super().__init__(**values)
        self.__dict__.update(
            extensions=extensions or {}, closed=closed or {}, unreadable=unreadable
        )

    def of(self, table: type[_AnyTable]) -> _AnyTable:
        """Return a table that stands apart, such as that of a plugin."""
        settings: _AnyTable = self.extensions.get(table) or table()
        return settings

    def without_texts_and_judges(self, why: str) -> Settings:
        """Return what may be in force until a person has mended a mistake."""
        content = without_content("", self.capture_content)
        return self.changed(capture_content=content, closed={**self.closed, JUDGES: why})

    def check_open(self, what: str) -> None:
        """Raise `ConfigurationError` where something is closed, with what closes it."""
        if what in self.closed:
            raise ConfigurationError(f"{_closed_words(what)}: {self.closed[what]}")

    def check_readable(self, name: str) -> None:
        """Raise `ConfigurationError` where the variable of a setting cannot be read."""
        if name in self.unreadable:
            variable = source_of(name)
            what = f"the setting {name!r}" if variable == "default" else variable
            raise ConfigurationError(f"{what} cannot be read, so nothing is sent")


@cache
def areas(*, plugins: bool = True) -> dict[str, type[Table]]:
    """Return the tables of the core and of the plugins, by the title of their area."""
    tables = dict(_CORE)
    for plugin in registry.plugins() if plugins else ():
        for title, where in plugin.settings.items():
            try:
                table = plugin.resolve(where)
            except ConfigurationError as error:
                registry.leave_out(plugin.name, f"its area {title!r}: {error}")
                continue
            if isinstance(table, type) and issubclass(table, Table):
                tables[title] = table
            else:
                registry.leave_out(plugin.name, f"its area {title!r} is no config.Table")
    return tables


@cache
def rows(*, plugins: bool = True) -> tuple[Row, ...]:
    """Return the rows of all tables."""
    return tuple(row for table in areas(plugins=plugins).values() for row in table.rows.values())


# The environment and the options of `configure` become `Settings`.


def from_environment(
    environ: Mapping[str, str] | None = None,
    *,
    problems: list[str] | None = None,
    instead: Collection[str] = (),
    plugins: bool = True,
    **options: object,
) -> Settings:
    """Resolve the settings: options win over the environment, and that over the defaults.

    A variable that is set and cannot be read gives its setting the careful value, and ``problems``
    a line about it. Without ``problems``, `ConfigurationError` is raised.

    Args:
        environ: the variables; by default those of the process.
        problems: gets the lines.
        instead: settings that are not read, because code says something in their place.
        plugins: whether their tables are read, too. Where a variable of ours is none of the core's,
            they are: it may be a misspelt name that closes something.
        options: settings by name. They are read as variables are, if they are texts.

    Raises:
        ConfigurationError: an option that cannot be used.
    """
    env = _environment(environ)
    plugins = plugins or _names_a_plugins(env)
    reading = _Reading(env)
    values = reading.values = _checked(options)
    settled = {*values, *instead}
    reading.read(row for row in rows(plugins=plugins) if row.name not in settled)
    if problems is not None:
        if plugins:
            reading.read_names(settled)
        problems.extend(reading.problems)
    elif reading.problems:
        raise ConfigurationError(reading.problems[0])
    core, extensions = {}, {}
    for table in areas(plugins=plugins).values():
        own = {name: values[name] for name in table.rows if name in values}
        if issubclass(Settings, table):
            core.update(own)
        elif own:
            extensions[table] = table(**own)
    return Settings(
        **core, extensions=extensions, closed=reading.closed, unreadable=tuple(reading.unreadable)
    )


def _names_a_plugins(env: Mapping[str, str]) -> bool:
    """Return whether the environment has a variable of ours that is none of the core's."""
    core = {variable for row in rows(plugins=False) for variable in row.variables}
    return any(variable.startswith(PREFIX) and variable not in core for variable in env)


def snapshot() -> Mapping[str, str]:
    """Return a copy of the environment as it is now."""
    return dict(_environment(None))


def _checked(options: Mapping[str, object]) -> dict[str, Any]:
    """Return the settings that code gives a value to, read as their variables are."""
    if not options:
        return {}
    known = {row.name: row for row in rows()}
    values = {}
    for name, value in options.items():
        row = known.get(name)
        if row is None:
            raise _unknown(name, known)
        if value is None:
            continue
        if isinstance(value, str) and not value.strip():
            values[name] = row.default
            continue
        try:
            values[name] = row.read(value)
        except Exception as problem:
            what = f"{name}={'***' if row.is_secret else shown(value)}"
            raise ConfigurationError(f"{what}: {expected(row.read, value, problem)}") from None
    return values


def _unknown(name: str, known: Iterable[str]) -> ConfigurationError:
    from llmeval_sdk.config.removed import REMOVED

    if name in REMOVED:
        words = f"{name} is no longer a setting: {REMOVED[name].instead}"
    else:
        words = f"unknown setting {name!r}: {nearest(name, known)}"
    return ConfigurationError(words)


def read(
    table: type[_AnyTable],
    environ: Mapping[str, str] | None = None,
    *,
    problems: list[str] | None = None,
) -> _AnyTable:
    """Read a table of settings that belongs to another room, such as an exporter's own.

    Bad values are treated as in `from_environment`.
    """
    reading = _Reading(_environment(environ))
    reading.read(table.rows.values())
    if problems is not None:
        problems.extend(reading.problems)
    elif reading.problems:
        raise ConfigurationError(reading.problems[0])
    return table(**reading.values)


class _Reading:
    """What the variables of an environment say."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.values: dict[str, Any] = {}
        self.closed: dict[str, str] = {}
        self.unreadable: list[str] = []
        self.problems: list[str] = []

    def read(self, rows: Iterable[Row]) -> None:
        """Read the rows that variables set; the first one that is set decides."""
        for row in rows:
            variable = _setting_variable(row, self._env)
            if variable is None:
                continue
            given = self._env[variable]
            try:
                self.values[row.name] = row.read(given)
            except Exception as problem:
                what = f"{variable}={'***' if row.is_secret else shown(given)}"
                self._close(row, variable, f"{what}: {expected(row.read, given, problem)}")

    def read_names(self, settled: Collection[str]) -> None:
        """Look for variables that nothing reads; one that is like a guarded one closes that."""
        ours = {variable: row for row in rows() for variable in row.variables}
        for variable in sorted(self._env):
            if not variable.startswith(PREFIX) or variable in ours:
                continue
            if self._is_removed(variable):
                continue
            near = _nearest(variable, ours)
            line = f"{variable[:80]} is not a setting: " + (
                f"did you mean {near!r}?" if near else "`llmeval doctor --all` shows all"
            )
            row = ours.get(near)
            if row is not None and row.is_guarded and row.name not in settled:
                self._close(row, variable[:80], line, why="is not a setting")
            else:
                self.problems.append(line)

    def _is_removed(self, variable: str) -> bool:
        """Say what to write in the place of a former setting, and close what it limited."""
        from llmeval_sdk.config.removed import REMOVED

        removed = REMOVED.get(variable.removeprefix(PREFIX).lower())
        if removed is None:
            return False
        line = f"{variable} is no longer a setting: {removed.instead}"
        if removed.closes is not None:
            self.closed[removed.closes] = f"{variable} is no longer a setting"
            line = f"{line}; {_closed_words(removed.closes)} until it is unset"
        self.problems.append(line)
        return True

    def _close(self, row: Row, variable: str, line: str, *, why: str = "cannot be read") -> None:
        """Give a row its careful value, and say so."""
        given, present = self._env.get(variable), self.values.get(row.name)
        value = row.default if row.careful is DEFAULT else row.careful
        value = value(given, present) if callable(value) else value
        self.values[row.name] = value
        self.unreadable.append(row.name)
        until = " until that is mended" if row.closes else ""
        self.problems.append(f"{line}; {careful_words(row, value)}{until}")
        if row.closes is not None:
            self.closed[row.closes] = f"{variable} {why}"


def _closed_words(what: str) -> str:
    """Say what it means that something is closed."""
    return _CLOSED.get(what, f"nothing is sent to {what}")


def careful_words(row: Row, value: object) -> str:
    """Say what follows where a row cannot be read and takes its careful value."""
    if row.closes is not None:
        return _closed_words(row.closes)
    return "using the default" if row.careful is DEFAULT else f"using {as_text(value)}"


_CLOSED = {JUDGES: "no judge runs", IDS: "ids of users and sessions are left out"}


def as_text(value: object) -> str:
    """Return a value as a variable would have it."""
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def shown(value: object) -> str:
    """Return a value that cannot be used as people may see it: it may be a key in a wrong place."""
    hide = registry.without_secrets
    try:
        words = repr(hide(value)) if isinstance(value, str) else hide(repr(value))
    except Exception:
        words = f"<{type(value).__name__}>"
    return words[:80]


PREFIX = "LLMEVAL_"


def _nearest(variable: str, ours: Iterable[str]) -> str:
    """Return the variable of ours that is most like another one; empty if none is."""
    import difflib

    known = [name.removeprefix(PREFIX) for name in ours if name.startswith(PREFIX)]
    close = difflib.get_close_matches(variable.removeprefix(PREFIX), sorted(known), 1)
    return f"{PREFIX}{close[0]}" if close else ""


def _environment(environ: Mapping[str, str] | None) -> Mapping[str, str]:
    return os.environ if environ is None else environ  # noqa: TID251 - the one reader


def _setting_variable(row: Row, env: Mapping[str, str]) -> str | None:
    """Return the variable that sets a row: the first of its own that is there and not empty."""
    return next((name for name in row.variables if (env.get(name) or "").strip()), None)


def in_experiment(name: str) -> dict[str, Any]:
    """Return the settings that an offline experiment has in the place of the app's.

    They keep its records apart from those of the app, and have it evaluate its rows alone.
    """
    wanted = {row.name: row.in_experiment for row in rows()}
    return {
        setting: value.replace("{name}", name) if isinstance(value, str) else value
        for setting, value in wanted.items()
        if value is not None
    }


def value_of(settings: Settings, name: str) -> Any:
    """Return the value of a setting by its name, whichever table has it; ``None`` if none has."""
    for table in areas().values():
        if name in table.rows:
            return getattr(settings if issubclass(Settings, table) else settings.of(table), name)
    return None


def source_of(name: str, environ: Mapping[str, str] | None = None) -> str:
    """Say where a setting's value came from: a variable's name, or ``default``."""
    row = next(row for row in rows() if row.name == name)
    return _setting_variable(row, _environment(environ)) or "default"


def variables(prefix: str, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the variables that are set and whose names begin with a prefix."""
    env = _environment(environ)
    return tuple(sorted(name for name in env if name.startswith(prefix)))


def state_folder(environ: Mapping[str, str] | None = None) -> str:
    """Return the folder of what belongs to this user and machine, outside any checkout.

    It is below that of the XDG specification, which is ``~/.local/state`` where no variable says
    another.
    """
    home = _environment(environ).get("XDG_STATE_HOME", "")
    return f"{home if home.startswith('/') else '~/.local/state'}/llmeval"


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
