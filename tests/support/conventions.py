"""The names that go over OTLP, compared with the conventions that define them: ``make conventions``.

`read_packages` reads the names of the conventions from the newest packages on the index into
``conventions.json``; `sent` gathers the names that really arrive at a collector.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import NamedTuple
from zipfile import ZipFile

from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from otlp_collector import attributes_of, running_collector

import llmeval_sdk as llmeval
from llmeval_sdk.config import from_environment
from llmeval_sdk.exporters.otlp.app_providers import AppOtelExporter, observe
from llmeval_sdk.exporters.otlp.exporter import OtlpExporter
from llmeval_sdk.model import Batch, Evaluation, EvaluationEvent, Failure, Target, Usage
from llmeval_sdk.testing import FakeLLM, capture
from llmeval_sdk.tracing import extract


TABLE = Path(__file__).with_name("conventions.json")
OWN = "llmeval."
WORDS = ("known", "own", "deprecated", "unknown")
REGISTRY = "opentelemetry-semantic-conventions"
NAMESPACES = (
    "deployment", "error", "exception", "gen_ai", "host", "process", "service", "session",
    "telemetry", "user",
)  # fmt: skip
"""What is kept of the registry, which has the names of all of OpenTelemetry."""
OTHERS = {
    "opentelemetry-util-genai": r"gen_ai\.[a-z_.]*[a-z]",
    "openinference-semantic-conventions": r"[a-z_]+(\.[a-z_]+)+|metadata",
    "langfuse": r"langfuse\.[a-z_.]*[a-z]",
    "pydantic-evals": r"gen_ai\.evaluation\.[a-z_.]*[a-z]",
}
"""Packages whose texts of this form are names that the registry lacks.

They are what OpenTelemetry's own instrumentations send since its conventions for generative AI left
the registry, and what Phoenix, Langfuse and Logfire read.
"""
ON_PAGES = {
    "exception": "https://opentelemetry.io/docs/specs/otel/trace/exceptions/",
    "gen_ai.evaluation.result": "https://github.com/open-telemetry/semantic-conventions-genai",
}
"""Events: no package for Python lists any."""
REPLACED = {
    "gen_ai.usage.cache_creation.input_tokens": "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.client.operation.duration": "gen_ai.client.inference.duration for chats",
    "gen_ai.client.operation.time_to_first_chunk": "gen_ai.client.inference.time_to_first_chunk",
    "gen_ai.client.token.usage": "gen_ai.client.inference.usage.*",
    "gen_ai.token.type": "one metric for each type",
}
"""What replaces names that no package calls deprecated, by the new registry's unfinished guide.

https://github.com/open-telemetry/semantic-conventions-genai: docs/gen-ai/non-normative/migration.md
"""
_STILL_SENT = "the newest opentelemetry-util-genai sends it"
KEPT = {
    "gen_ai.usage.cache_creation.input_tokens": "Phoenix and Langfuse read no other name",
    "gen_ai.client.operation.duration": _STILL_SENT,
    "gen_ai.client.operation.time_to_first_chunk": _STILL_SENT,
    "gen_ai.client.token.usage": _STILL_SENT,
    "gen_ai.token.type": _STILL_SENT,
}
"""Why deprecated names are sent."""


class Standing(NamedTuple):
    """Whether the conventions have a name, and what they say of it."""

    word: str
    """``known``, ``deprecated``, ``own`` or ``unknown``."""
    why: str = ""


# -- what the conventions say ---------------------------------------------------------------------


def read_packages():
    """Download the newest packages, and return the table of their names."""
    with TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
             "--no-deps", "--only-binary", ":all:", "--dest", folder, REGISTRY, *OTHERS],
            check=True,
        )  # fmt: skip
        wheels = {
            path.name.split("-")[0].replace("_", "-"): path for path in Path(folder).iterdir()
        }
        registry, schema_url = _registry(wheels[REGISTRY])
        names = {REGISTRY: registry}
        for package, form in OTHERS.items():
            known = {name for table in names.values() for name in table}
            texts = {text for text in _texts(wheels[package]) if re.fullmatch(form, text)}
            names[package] = dict.fromkeys(sorted(texts - known), "known")
    versions = {package: wheels[package].name.split("-")[1] for package in names}
    return {"packages": versions, "schema_url": schema_url, "names": names}


def _registry(wheel):
    """Return the names of the registry with what it says of each, and its newest schema."""
    names = {}
    for path, module in _modules(wheel):
        if "/attributes/" not in path and "/metrics/" not in path:
            continue
        stability = "development" if "/_incubating/" in path else "stable"
        for name, words in _documented(module):
            if name.partition(".")[0] not in NAMESPACES:
                continue
            words = " ".join(words.split())
            if words.startswith("Deprecated in favor of stable"):
                continue  # the stable constant says more
            names[name] = stability
            if words.startswith("Deprecated: Moved to the [OpenTelemetry GenAI"):
                names[name] = "moved"
            elif words.startswith("Deprecated: "):
                why = words.removeprefix("Deprecated: ").partition(", which has moved")[0]
                names[name] = f"deprecated: {why.rstrip('.')}"
    schemas = [
        text for text in _texts(wheel) if text.startswith("https://opentelemetry.io/schemas/")
    ]
    newest = max(schemas, key=lambda url: [int(part) for part in url.rsplit("/")[-1].split(".")])
    return dict(sorted(names.items())), newest


def _documented(module):
    """Yield the constants of a module that hold a text, each with the text below it."""
    for statement, below in zip(module.body, module.body[1:], strict=False):
        match statement, below:
            case (
                ast.AnnAssign(value=ast.Constant(value=str(name))),
                ast.Expr(value=ast.Constant(value=str(words))),
            ):
                yield name, words


def _texts(wheel):
    """Return all texts in the code of a wheel."""
    return {
        node.value
        for _, module in _modules(wheel)
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def _modules(wheel):
    """Yield the modules of a wheel with their paths, without running them."""
    with ZipFile(wheel) as archive:
        for path in sorted(archive.namelist()):
            if path.endswith(".py"):
                yield path, ast.parse(archive.read(path))


def table():
    """Return the table as it was read last."""
    return json.loads(TABLE.read_text())


def standing(name, known):
    """Say how a name stands by the table ``known``."""
    if name.startswith(OWN):
        return Standing("own")
    if name in ON_PAGES:
        return Standing("known", ON_PAGES[name])
    if name in REPLACED:
        why = f"; kept: {KEPT[name]}" if name in KEPT else ""
        return Standing("deprecated", f"replaced by {REPLACED[name]}{why}")
    for package, names in known["names"].items():
        state = names.get(name)
        if state is not None:
            word, _, why = state.partition(": ")
            if word == "deprecated":
                return Standing(word, why)
            return Standing("known", f"{package}, {state}" if package == REGISTRY else package)
    return Standing("unknown")


def wrong(names, known):
    """Return which names may not be sent, each with the reason."""
    return {
        name: why or "no convention has it: begin it with llmeval."
        for name in names
        for word, why in [standing(name, known)]
        if word == "unknown" or (word == "deprecated" and name not in KEPT)
    }


# -- what is sent ---------------------------------------------------------------------------------


def sent(emitter):
    """Return the names that one of `EMITTERS` sends: a kind and a name each, and the scopes."""
    with running_collector() as collector:
        EMITTERS[emitter](collector)
        names = {("resource", name) for about in collector.resources for name in about}
        names |= {("resource", name) for about in collector.log_resources for name in about}
        for span in collector.spans:
            names |= {("attribute", name) for name in attributes_of(span)}
            for event in span.events:
                names.add(("event", event.name))
                names |= {("attribute", name) for name in attributes_of(event)}
            for link in span.links:
                names |= {("attribute", name) for name in attributes_of(link)}
        for log in collector.logs:
            names.add(("event", log.event_name))
            names |= {("attribute", name) for name in attributes_of(log)}
        for metric in collector.metrics:
            names.add(("metric", metric.name))
            for point in getattr(metric, metric.WhichOneof("data")).data_points:
                names |= {("attribute", name) for name in attributes_of(point)}
        return names, set(collector.scopes)


def _core(collector):
    """Send spans of all kinds, evaluations of all outcomes, and all metrics."""
    with _meter_provider(collector) as meters:
        settings = from_environment({}, otlp_endpoint=collector.url, export_fields=True)
        exporter = OtlpExporter(settings, meter_provider=meters)
        observe(_counted, meters)
        _run_app(exporter)
        exporter.export(Batch(evaluations=_OUTCOMES))
        exporter.close(5)


def _app(collector):
    """Send the same through the app's own providers of OpenTelemetry."""
    spans, logs = TracerProvider(shutdown_on_exit=False), LoggerProvider(shutdown_on_exit=False)
    to_traces = OTLPSpanExporter(endpoint=f"{collector.url}/v1/traces")
    to_logs = OTLPLogExporter(endpoint=f"{collector.url}/v1/logs")
    spans.add_span_processor(SimpleSpanProcessor(to_traces))
    logs.add_log_record_processor(SimpleLogRecordProcessor(to_logs))
    with _meter_provider(collector) as meters:
        _run_app(
            AppOtelExporter(
                from_environment({}), tracer_provider=spans, logger_provider=logs,
                meter_provider=meters,
            )
        )  # fmt: skip
    spans.shutdown()
    logs.shutdown()


def _langfuse(collector):
    """Send the same spans to Langfuse."""
    from llmeval_sdk.plugins.langfuse.exporter import LangfuseExporter

    keys = {"langfuse_public_key": "pk-lf-1", "langfuse_secret_key": "sk-lf-2"}
    collector.pages["/api/public/scores"] = {}
    exporter = LangfuseExporter(from_environment({}, langfuse_url=collector.url, **keys))
    _run_app(exporter)
    exporter.close(5)


def _watch(collector):
    """Send an alarm and how it stands."""
    from llmeval_sdk.plugins.watch.delivery import AlertMessage, Telemetry

    logs = LoggerProvider(shutdown_on_exit=False)
    exporter = OTLPLogExporter(endpoint=f"{collector.url}/v1/logs")
    logs.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    with _meter_provider(collector) as meters:
        telemetry = Telemetry(logs, meters)
        telemetry.event(AlertMessage("1", "groundedness<0.9", "raised", 1_000, "ALARM", {}, 1_000))
        telemetry.gauges("groundedness<0.9", "alarm", 1.5)
    logs.shutdown()


EMITTERS = {"core": _core, "app": _app, "langfuse": _langfuse, "watch": _watch}


@contextmanager
def _meter_provider(collector):
    """Give a provider of OpenTelemetry's SDK that sends its metrics at the end of the block."""
    exporter = OTLPMetricExporter(endpoint=f"{collector.url}/v1/metrics")
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
    provider = MeterProvider([reader], shutdown_on_exit=False)
    yield provider
    provider.shutdown()


_USED = {
    "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 10},
    "completion_tokens_details": {"reasoning_tokens": 5},
}  # fmt: skip
_COMPLETION = {
    "id": "chatcmpl-1", "model": "gpt-4o-2026", "usage": _USED,
    "choices": [{"message": {"role": "assistant", "content": "Slate."}, "finish_reason": "stop"}],
}  # fmt: skip
_CHUNK = {"content": "Slate.", "doc_uri": "survey.pdf", "chunk_id": "c1", "score": 0.4}


def _run_app(exporter):
    """Run an app that has a span of every kind, and says of each all that can be said."""
    verdict = {"rationale": "it is in the survey", "rating": "yes"}
    with capture(
        exporters=[exporter], llm=FakeLLM(verdict), escalations=[], prices={"gpt-4o": (2.5, 10.0)},
        evaluators=["groundedness"],
    ) as seen:  # fmt: skip
        with llmeval.workflow("answer", request="Which roof?", session_id="s-1") as workflow:
            with llmeval.retrieval("find", request={"query": "roof", "top_k": 5}) as search:
                search.annotate(metadata={"data_source": "surveys"})
                search.retrieved_context = [_CHUNK]
            with llmeval.embedding(model_name="small", request="roof"):
                pass
            with llmeval.agent("surveyor", request="Which roof?"):
                with llmeval.tool("look_up", request={"key": "roof"}) as tool:
                    tool.response = {"value": "slate"}
            messages = [
                {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Roof?"},
            ]  # fmt: skip
            with llmeval.llm(
                model_name="gpt-4o", model_provider="openai", request=messages
            ) as call:
                call.annotate(
                    prompt={
                        "id": "ask", "version": "3", "template": "{q}", "variables": {"q": "Roof?"},
                    },
                    metrics={"time_to_first_token": 0.2, "retries": 1},
                )  # fmt: skip
                call.response = _COMPLETION
            with llmeval.task("tidy"):
                pass
            try:
                with llmeval.tool("fail"):
                    raise TimeoutError("too late")
            except TimeoutError:
                pass
            workflow.annotate(
                tags={"team": "survey"}, user_id="u-1", metadata={"tier": 1},
                extractions=[{"value": "slate", "chunk_number": 1}], value="slate",
                expected_response="slate", expected_facts=["slate"],
                expected_retrieved_context=[_CHUNK],
            )  # fmt: skip
            workflow.response = "Slate."
            llmeval.submit_feedback(label="helpful", value=True, reasoning="it was")
        with extract({"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}), llmeval.task("called"):
            pass
        seen.drain()


_TARGET = Target("ab" * 16, "01" * 8, "answer", "workflow")
_OUTCOMES = tuple(
    EvaluationEvent(f"e{number}", _TARGET, evaluation, 5)
    for number, evaluation in enumerate((
        Evaluation("polite", error=Failure("Timeout", "too late"), evaluator_kind="judge"),
        Evaluation("tone", "warm", probability=0.8, evaluator_kind="decision", duration=0.5),
        Evaluation(
            "groundedness", 0.5, label="half", explanation="half of it", evaluator_kind="judge",
            usage=Usage(10, 2, 12), inclusion_probability=0.2, metadata={"model": "gpt-4o"},
        ),
        Evaluation("resolved", True, metadata={"scope": "session", "session_id": "s-1"}),
        Evaluation("extraction_risk", 0.5, metadata={"fields": [
            {"path": "lines[0].amount", "chance": 0.3, "reason": "not in the document"},
        ]}),
    ))
)  # fmt: skip
"""Outcomes that the run of the app does not have."""


def _counted():
    """Return counters of which each has a value, as ``stats()`` does."""
    account = SimpleNamespace(delivered=1, dropped={"full": 1}, unknown=1, undelivered=1)
    return SimpleNamespace(
        spans=1, evaluations=1, exporters={"otlp": account}, judged={"polite": 1},
        not_run={"polite": {"budget": 1}}, pending_judgements=1, judge_usage=Usage(1, 1, 2, 0.1),
        cut_prompts=1, problems={"annotate": 1},
    )  # fmt: skip


# -- the command ----------------------------------------------------------------------------------


def main():
    """Renew the table if asked, and print how all names stand; fails if one has to change."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--offline", action="store_true", help="compare with the table as it is")
    if not parser.parse_args().offline:
        print("reading the newest packages of conventions", file=sys.stderr)
        TABLE.write_text(json.dumps(read_packages(), indent=1) + "\n")
    known = table()
    with TemporaryDirectory() as folder:
        os.environ.update(XDG_STATE_HOME=folder, LLMEVAL_STORE=f"{folder}/llmeval.db")
        rows = sorted({(standing(name, known), kind, name)
                       for emitter in EMITTERS for kind, name in sent(emitter)[0]})  # fmt: skip
    print("moved: into OpenTelemetry's registry for generative AI, under the same name\n")
    for (word, why), kind, name in rows:
        print(f"{word:<11}{kind:<10}{name:<46}{why}".rstrip())
    counts = {word: sum(row[0].word == word for row in rows) for word in WORDS}
    print("\n" + ", ".join(f"{count} {word}" for word, count in counts.items()))
    print("compared with " + ", ".join(f"{k} {v}" for k, v in known["packages"].items()))
    return 1 if wrong((name for _, _, name in rows), known) else 0


if __name__ == "__main__":
    sys.exit(main())
