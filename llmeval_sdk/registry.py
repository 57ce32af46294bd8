"""Names of evaluators, exporters and plugins -> where they live; loaded when first used.

A new built-in is one file and one line here. Other packages use the entry points
``llmeval_sdk.evaluators``, ``llmeval_sdk.exporters`` and ``llmeval_sdk.plugins``; an app just
decorates a function.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from llmeval_sdk.errors import ConfigurationError, nearest
from llmeval_sdk.model import values
from llmeval_sdk.process.loading import load_module, loading
from llmeval_sdk.process.shield import MAX_REASON, caught, describe, is_ours, tell


if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from llmeval_sdk.model.protocols import LLM, Evaluator, Judge


_HEURISTICS = {
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
    "total_token_count": "llmeval_sdk.heuristics.usage:total_token_count",
    "total_input_token_count": "llmeval_sdk.heuristics.usage:total_input_token_count",
    "total_output_token_count": "llmeval_sdk.heuristics.usage:total_output_token_count",
    "latency_seconds": "llmeval_sdk.heuristics.usage:latency_seconds",
}  # fmt: skip
_CORE = tuple(_HEURISTICS)
"""The names of those of the core, to which plugins add theirs."""


class Attachment(NamedTuple):
    """To which records a heuristic attaches, as far as that is known before it is loaded."""

    needs: tuple[str, ...]
    """What a record must have, as the heuristic itself says."""
    applies: str = ""
    """The address of what more must hold."""
    inline: bool = False
    """Whether it runs on the app's thread."""
    per: Literal["answer", "session"] = "answer"
    """Whether it scores each request, or a whole conversation."""


_STRUCTURE = "llmeval_sdk.model.structure"
_ATTACHMENTS = {
    "context_relevance": Attachment(("retrieved_context",), inline=True),
    "context_precision": Attachment(("extractions",), inline=True),
    "context_recall_heuristic": Attachment(("extractions", "retrieved_context"), inline=True),
    "recall_warning": Attachment(("extractions", "retrieved_context"), inline=True),
    "aggregated_confidence": Attachment(("confidence|extractions",), inline=True),
    "semantic_validation": Attachment(
        ("extractions|value", "extractions|retrieved_context|request"), f"{_STRUCTURE}:has_value"
    ),
    "multi_source_agreement": Attachment(("extractions",), inline=True),
    "agreement_pattern": Attachment(("extractions",), inline=True),
    "retrieval_risk": Attachment(("request", "retrieved_context")),
    "groundedness_risk": Attachment(
        ("response", "retrieved_context|steps.result"), f"{_STRUCTURE}:has_no_fields"
    ),
    "extraction_risk": Attachment(
        ("extractions|field_config|value|response",), f"{_STRUCTURE}:is_extraction"
    ),
    "abstention_risk": Attachment(
        ("extractions|field_config", "retrieved_context|extractions"),
        f"{_STRUCTURE}:has_no_fields",
    ),
    "document_recall": Attachment(("expected_retrieved_context", "retrieved_context"), inline=True),
}
"""Those that attach by themselves. They are loaded for the first record that they attach to."""

_EXPECTED = {
    name: f"llmeval_sdk.heuristics.expected.{name}:{name}"
    for name in (
        "exact_match", "contains", "token_f1", "rouge_l", "edit_similarity", "mrr", "ndcg",
    )
}  # fmt: skip
"""Heuristics that compare with ground truth and run only where they are named."""

_JUDGES = {
    "relevance_to_query": "llmeval_sdk.judges.relevance_to_query:relevance_to_query",
    "safety": "llmeval_sdk.judges.safety:safety",
    "groundedness": "llmeval_sdk.judges.groundedness:groundedness",
    "chunk_relevance": "llmeval_sdk.judges.chunk_relevance:chunk_relevance",
    "correctness": "llmeval_sdk.judges.correctness:correctness",
    "context_sufficiency": "llmeval_sdk.judges.context_sufficiency:context_sufficiency",
    "context_recall_llm": "llmeval_sdk.judges.context_recall_llm:context_recall_llm",
    "context_recall": "llmeval_sdk.judges.context_recall:context_recall",
    "extraction_correctness": "llmeval_sdk.judges.extraction_correctness:extraction_correctness",
}
"""In the order of reports."""

_FAMILIES = {
    "regex": "llmeval_sdk.heuristics.expected.regex:by_pattern",
    "json_schema": "llmeval_sdk.heuristics.expected.json_schema:by_file",
    "precision_at_k": "llmeval_sdk.heuristics.expected.precision_at_k:by_rank",
    "recall_at_k": "llmeval_sdk.heuristics.expected.recall_at_k:by_rank",
    "ndcg_at_k": "llmeval_sdk.heuristics.expected.ndcg:by_rank",
}
"""What makes evaluators of a name and what follows it: ``ragas:context_recall``, ``regex:^\\d+$``.
"""

_EXPORTERS = {
    "local": "llmeval_sdk.exporters.local:LocalExporter",
    "console": "llmeval_sdk.exporters.console:ConsoleExporter",
    "memory": "llmeval_sdk.exporters.memory:MemoryExporter",
    "otlp": "llmeval_sdk.exporters.otlp:make",
}
"""Each names a callable that takes the Settings and returns an Exporter.

`docs/reference/settings.md` lists the names."""

_STATE = {"cached": "llmeval_sdk.evaluation.verdicts:TABLES"}
"""What the file of state keeps of people, by its name in ``llmeval prune --json``."""

PLUGIN_API = 1
"""The version of what a plugin and the core know of each other. A change that breaks plugins raises
it."""

_PLUGINS = (
    "agents", "datadog", "demo", "fleet", "grpc", "instrument", "langfuse", "mlflow",
    "openinference", "phoenix", "providers", "ragas", "ray", "serverless", "sessions", "shared",
    "watch",
)  # fmt: skip
"""The folders of ``llmeval_sdk.plugins``, each with a ``plugin``. Nothing else in the core names
them."""


EARLY_VARIABLES = ("DD_", "LLMEVAL_INSTRUMENT")
"""Beginnings of the variables of plugins that act before the first traced call returns: the spans
of Datadog are opened with ours, and a client is instrumented before it is called."""


class Manifest:
    """What a plugin brings, by name; `llmeval_sdk.Plugin` adds what it does.

    Every table maps a name to an address, ``module:attribute``, inside the plugin's own package;
    ``:attribute`` stands in the package itself. An address is loaded when its name is first used,
    so a plugin costs its tables until then.
    """

    name: ClassVar[str] = ""
    """Under which other plugins require it and messages speak of it."""
    requires: ClassVar[tuple[str, ...]] = ()
    """The plugins without which it cannot work. They are asked before it."""
    api: ClassVar[int] = PLUGIN_API
    """The `PLUGIN_API` that it was written for."""
    settings: ClassVar[Mapping[str, str]] = {}
    """Title of an area of the settings -> a `config.Table` whose rows `config.setting` made."""
    heuristics: ClassVar[Mapping[str, str]] = {}
    """Free evaluators that attach to the records they apply to."""
    attachments: ClassVar[Mapping[str, Attachment]] = {}
    """To which records they attach: one that stands here is loaded for the first of these, any
    other one when the SDK is set up."""
    judges: ClassVar[Mapping[str, str]] = {}
    """Paid evaluators that run where a judge model is configured and they are asked for."""
    library_judges: ClassVar[Mapping[str, str]] = {}
    """Paid evaluators that run on another library, which is an extra."""
    families: ClassVar[Mapping[str, str]] = {}
    """First word of ``word:rest`` -> what makes the evaluator that ``rest`` describes."""
    adapters: ClassVar[Mapping[str, str]] = {}
    """Top package of another library -> what makes a judge of its objects, or returns ``None``."""
    units: ClassVar[Mapping[str, str]] = {}
    """``per=`` of ``@judge`` -> the class of judges that rate such units."""
    exporters: ClassVar[Mapping[str, str]] = {}
    """Where spans and scores go -> a callable that takes the Settings and returns an Exporter."""
    models: ClassVar[Mapping[str, str]] = {}
    """Ways to reach a judge model by its name -> an object that follows `protocols.ModelSource`."""
    transports: ClassVar[Mapping[str, str]] = {}
    """Protocols of OTLP -> what makes the client that speaks them."""
    readers: ClassVar[Mapping[str, str]] = {}
    """Libraries that trace -> a function of the Settings that has their spans evaluated, where the
    Settings want it. `llmeval_sdk.auto` calls it."""
    engines: ClassVar[Mapping[str, str]] = {}
    """``engine=`` of `evaluate` -> the class that runs it."""
    commands: ClassVar[Mapping[str, str]] = {}
    """Commands of ``llmeval`` -> a function that adds the command's parser."""
    findings: ClassVar[Mapping[str, str]] = {}
    """Sections of ``llmeval doctor`` -> a function of the Settings that yields what it found."""
    state: ClassVar[Mapping[str, str]] = {}
    """What the file of state keeps of people -> a `StateTables`, for ``prune`` and ``backup``."""

    @classmethod
    def resolve(cls, address: str) -> Any:
        """Load what an address inside this plugin's package names."""
        return load(cls.absolute(address))

    @classmethod
    def absolute(cls, address: str) -> str:
        """Return an address of this plugin as one that works everywhere."""
        home = sys.modules[cls.__module__].__package__
        if not home:  # a plugin of one module
            return f"{cls.__module__}{address}" if address.startswith(":") else address
        return f"{home}{address}" if address.startswith(":") else f"{home}.{address}"


_TABLES: dict[str, dict[str, str]] = {
    "heuristics": _HEURISTICS,
    "judges": _JUDGES,
    "library_judges": {},
    "families": _FAMILIES,
    "adapters": {},
    "units": {},
    "exporters": _EXPORTERS,
    "models": {},
    "transports": {},
    "readers": {},
    "engines": {},
    "commands": {},
    "state": _STATE,
}
"""Name -> absolute address, of the core; `plugins` adds those of the plugins, once."""
_loaded: list[Manifest] | None = None
_making = threading.RLock()
plugin_problems: list[str] = []
"""A line for each plugin that was left out, with the reason; ``llmeval doctor`` shows them."""


def plugins() -> Sequence[Manifest]:
    """Return the plugins that are installed, each behind those that it requires.

    The first call loads their manifests. One that cannot be used is left out, with a line in
    `plugin_problems` and in the log; the app and the other plugins run.
    """
    global _loaded  # noqa: PLW0603
    if _loaded is None:
        # The lock is not held meanwhile: another thread may wait for it inside an import of its
        # own, for which this one waits.
        with loading:
            problems: list[tuple[str, str]] = []
            found = list(_in_order(_found(problems), problems))
        with _making:
            if _loaded is None:
                for plugin in found:
                    for kind, table in _TABLES.items():
                        for name, address in getattr(plugin, kind).items():
                            table.setdefault(name, plugin.absolute(address))
                    for name, attachment in plugin.attachments.items():
                        _ATTACHMENTS.setdefault(name, attachment)
                _loaded = found
        if _loaded is found:
            for name, reason in problems:
                leave_out(name, reason)
    return _loaded


def _found(problems: list[tuple[str, str]]) -> dict[str, Manifest]:
    found: dict[str, Manifest] = {}
    for name in _PLUGINS:
        home = f"{__package__}.plugins.{name}"
        try:
            found[name] = load_module(home).plugin
        except ModuleNotFoundError as error:
            if error.name != home:
                problems.append((name, f"its import fails: {describe(error)}"))
        except (Exception, SystemExit) as error:
            if not is_ours(error):
                raise
            problems.append((name, f"its import fails: {describe(error)}"))
    for point in _entry_points("plugins") if _some_package_has_plugins() else ():
        plugin = _brought_by(point)
        if isinstance(plugin, str):
            problems.append((point.name, plugin))
        elif plugin.name in found:
            words = f"another plugin is named {plugin.name!r}: {point.value}"
            problems.append((point.name, words))
        else:
            found[plugin.name] = plugin
    return found


def _brought_by(point: EntryPoint) -> Manifest | str:
    """Load the plugin of another package; say why where it cannot be used."""
    try:
        brought = point.load()
        plugin = brought() if isinstance(brought, type) else brought
    except (Exception, SystemExit) as error:
        if not is_ours(error):
            raise
        return f"its import fails: {describe(error)}"
    if not isinstance(plugin, Manifest) or not plugin.name:
        return f"{point.value} is no llmeval_sdk.Plugin with a name"
    for kind in ("settings", "attachments", "findings", *_TABLES):
        if not isinstance(getattr(plugin, kind), Mapping):
            return f"its {kind} are no mapping"
    if plugin.api > PLUGIN_API:
        return f"it needs a newer llmeval_sdk (plugin API {plugin.api}, here {PLUGIN_API})"
    return plugin


def _in_order(found: Mapping[str, Manifest], problems: list[tuple[str, str]]) -> Iterator[Manifest]:
    """Yield the plugins whose requirements are there, each behind those that it requires."""
    done: dict[str, bool] = {}

    def visit(name: str) -> Iterator[Manifest]:
        if name in done:
            return
        done[name] = False  # a circle of requirements ends here
        for need in found[name].requires:
            if need in found:
                yield from visit(need)
            if not done.get(need):
                problems.append((name, f"it requires the plugin {need!r}, which is not there"))
                return
        done[name] = True
        yield found[name]

    for name in found:
        yield from visit(name)


def leave_out(name: str, reason: str) -> None:
    """Say that a plugin is left out, in the log, in ``stats().problems`` and in ``doctor``."""
    line = f"plugin {name!r} is left out: {without_secrets(reason)}"[:MAX_REASON]
    if line not in plugin_problems:
        plugin_problems.append(line)
    site = f"plugin {name[:60]}"
    caught.add(site)
    tell(site, line)


def table(kind: str) -> dict[str, str]:
    """Return a table of names and absolute addresses, those of the plugins included.

    Args:
        kind: the name of a table of `Manifest`, such as ``"exporters"``.
    """
    plugins()
    return _TABLES[kind]


def heuristics() -> dict[str, str]:
    """Return the free evaluators that attach by themselves."""
    return table("heuristics")


def attachment(name: str) -> Attachment | None:
    """Return to which records a heuristic attaches; ``None`` if it has to be loaded to know."""
    return _ATTACHMENTS.get(name)


def core_attachments() -> Mapping[str, Attachment]:
    """Return those of the core, for what must not wait until the plugins are there."""
    return {name: _ATTACHMENTS[name] for name in _CORE if name in _ATTACHMENTS}


def judges() -> dict[str, str]:
    """Return the judges, in the order of reports."""
    return table("judges")


def expected() -> dict[str, str]:
    """Return the heuristics that compare with ground truth and run only where they are named."""
    return _EXPECTED


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
    values.declare(evaluator.name, getattr(evaluator, "better", None))
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
    if name in _CORE:  # without the plugins: the app's thread may ask before they are there
        built_in: Evaluator = load(_HEURISTICS[name])
        return built_in
    family, _, rest = name.partition(":")
    families = table("families")
    if family in families:
        made: Evaluator = load(families[family])(rest)
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
    tables = (heuristics(), _EXPECTED, judges(), table("library_judges"))
    return next((table[name] for table in tables if name in table), None)


def is_judge(name: str) -> bool:
    """Say whether a name is that of a judge that comes with the package."""
    return name in judges() or name in table("library_judges") or name.startswith("ragas:")


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
    found: LLM = load("llmeval_sdk.judges.models:resolve")(model)
    return found


def without_secrets(text: str) -> str:
    """Return a text without what looks like a secret, for messages about what a person set."""
    hidden: str = load(_HIDING)(text)
    return hidden


def why_of(error: BaseException) -> str:
    """Say what failed in a set-up, why and in which file, without what looks like a secret."""
    try:
        return without_secrets(describe(error))
    except Exception:  # this installation lacks more
        return type(error).__name__


_HIDING = "llmeval_sdk.exporters.redaction:without_secrets"


def embeddings(model: object = None, llm: object = None) -> Any:
    """Make what embeds texts, of a model's name and the server of the judge model.

    Raises `ConfigurationError` where neither says which server to ask.
    """
    return load("llmeval_sdk.judges.models.openai_client:resolve_embeddings")(model, llm=llm)


def exporter_factory(name: str) -> Any:
    """Find what builds an exporter by name; raises `ConfigurationError` if nothing does."""
    path = table("exporters").get(name)
    return load(path) if path else _from_entry_point("exporters", name)


def load(path: str) -> Any:
    """Return what ``module:attribute`` names.

    Raises:
        ConfigurationError: its file was deleted, or it cannot be loaded, which is counted and
            leaves a line for the log: those who can do without it go on.
    """
    module, _, attribute = path.partition(":")
    try:
        return getattr(load_module(module), attribute)
    except ConfigurationError:
        raise
    except (Exception, SystemExit) as error:
        if not is_ours(error):
            raise
        absent = error.name if isinstance(error, ModuleNotFoundError) else None
        if absent is not None and f"{module}.".startswith(f"{absent}."):
            raise ConfigurationError(f"{module} is not part of this installation") from None
        words = f"it cannot be loaded: {describe(error)}"
        words = words if path == _HIDING else without_secrets(words)
        caught.add(path)
        tell(path, words[:MAX_REASON])
        raise ConfigurationError(f"{path}: {words}") from error


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
    adapters = table("adapters")
    for kind in type(thing).__mro__:
        path = adapters.get(kind.__module__.partition(".")[0])
        if path is not None:
            judge: Judge | None = load(path)(thing)
            return judge
    return None


def _some_package_has_plugins() -> bool:
    """Say whether an installed package declares a plugin, without asking `importlib.metadata`.

    Its import and first search take 150 ms, which the first span of an app would wait for; reading
    the few files that declare entry points takes 2 ms for 90 packages. Packages in an archive are
    not seen.
    """
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208 - a list of names is all it takes
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                with suppress(OSError), open(f"{folder}/{name}/entry_points.txt", "rb") as file:  # noqa: PTH123
                    if b"llmeval_sdk.plugins" in file.read():
                        return True
    return False


def _entry_points(kind: str) -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points

    return entry_points(group=f"llmeval_sdk.{kind}")


def _from_entry_point(group: str, name: str) -> Any:
    points = {point.name: point for point in _entry_points(group)}
    if name in points:
        return points[name].load()
    if group == "exporters":
        known = set(table("exporters"))
    else:
        tables = ("heuristics", "families", "judges", "library_judges")
        known = {*_EXPECTED, *_own}.union(*map(table, tables))
    raise ConfigurationError(f"unknown {group[:-1]} {name!r}: {nearest(name, known | set(points))}")
