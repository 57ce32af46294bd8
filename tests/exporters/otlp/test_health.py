"""What ``stats()`` says, as OpenTelemetry metrics of the app's own meter provider."""

import subprocess
import sys
import textwrap

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import llmeval_sdk as llmeval
from llmeval_sdk.exporters.otlp.app_providers import READINGS, observe
from llmeval_sdk.testing import FakeLLM, capture


RECALL = {"rationale": "most of it is there", "score": 0.8}


def points_of(reader):
    """Return values by metric and sorted attributes."""
    data = reader.get_metrics_data()
    return {
        (metric.name, *sorted(point.attributes.items())): point.value
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }


@pytest.fixture
def reader():
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    observe(llmeval.stats, provider)
    yield reader
    provider.shutdown()


def extract():
    with llmeval.workflow("extract", request="roof") as span:
        span.annotate(
            retrieved_context=[{"content": "c", "chunk_id": str(n)} for n in range(5)],
            extractions=[{"value": "slate", "chunk_number": 1}],
            value="slate",
        )


class Fussy:
    """Takes no evaluation."""

    name = "fussy"

    def export(self, batch):
        return {"rejected": len(batch.evaluations)}

    def flush(self, timeout):
        pass

    def close(self, timeout):
        pass


def test_the_metrics_are_the_counters(reader):
    """Spans, evaluations, each exporter's account, judges and why they did not run, their spend."""
    with capture(
        llm=FakeLLM(RECALL),
        exporters=[Fussy()],
        evaluators=["relevance_to_query"],
        prices={"fake": (1_000, 1_000)},
    ) as seen:
        extract()
        stats = seen.drain()
        found = points_of(reader)
    assert found["llmeval.spans",] == stats.spans > 0
    assert found["llmeval.evaluations",] == stats.evaluations > 0
    for name, account in stats.exporters.items():
        about = ("llmeval.exporter.name", name)
        assert found["llmeval.exporter.delivered", about] == account.delivered > 0
        assert found["llmeval.exporter.queue.size", about] == account.undelivered == 0
        assert found["llmeval.exporter.unknown", about] == account.unknown == 0
        dropped = {
            key[1][1]: value
            for key, value in found.items()
            if key[0] == "llmeval.exporter.dropped" and about in key
        }
        assert dropped == account.dropped
    assert stats.exporters["fussy"].dropped["rejected"] > 0
    judge = ("gen_ai.evaluation.name", "context_recall_llm")
    assert found["llmeval.judge.judged", judge] == stats.judged["context_recall_llm"] == 1
    idle = ("gen_ai.evaluation.name", "relevance_to_query")
    reason = ("llmeval.not_run.reason", "missing_inputs")
    assert found["llmeval.judge.not_run", idle, reason] == 1
    assert found["llmeval.judge.pending",] == 0
    used = stats.judge_usage
    assert found["llmeval.judge.tokens", ("gen_ai.token.type", "input")] == used.input_tokens
    assert found["llmeval.judge.tokens", ("gen_ai.token.type", "output")] == used.output_tokens
    assert found["llmeval.judge.cost",] == used.cost_usd > 0
    assert found["llmeval.judge.cut_prompts",] == stats.cut_prompts == 0


def test_each_collection_reads_anew_and_counts_nothing_twice(reader):
    """Totals, however often they are collected."""
    with capture() as seen:
        extract()
        seen.drain()
        assert points_of(reader)["llmeval.spans",] == 1
        assert points_of(reader)["llmeval.spans",] == 1
        extract()
        seen.drain()
        assert points_of(reader)["llmeval.spans",] == 2
        llmeval.configure(exporters=[Fussy()])
        extract()
        llmeval.flush(10)
        assert points_of(reader)["llmeval.spans",] == 3


def test_a_name_is_an_instrument_once():
    """Backends refuse two of one name."""
    names = [each.name for each in READINGS]
    assert len(set(names)) == len(names)
    assert all(name.startswith("llmeval.") for name in names)


PROVIDER = """
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
"""
SPAN = """
answer()
llmeval.flush(10)
"""
COUNT = """
def count():
    data = reader.get_metrics_data()
    return sum(
        point.value
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics for metric in scope.metrics
        if metric.name == "llmeval.spans" for point in metric.data.data_points
    )
until = time.monotonic() + 60
while not count() and time.monotonic() < until: time.sleep(0.05)
print(count())
"""
ORDERS = {
    "provider first": PROVIDER + SPAN + COUNT,
    "provider after a span": SPAN + PROVIDER + COUNT,
    "the API loaded before, the provider after": "import opentelemetry.metrics\n" + SPAN + PROVIDER + COUNT,
    "switched off": PROVIDER + SPAN + COUNT.replace("+ 60", "+ 1.5"),
    "never loaded": SPAN + "print(sum(name.startswith('opentelemetry') for name in sys.modules))",
}  # fmt: skip
EXPECTED = {"switched off": "0", "never loaded": "0"}


@pytest.mark.parametrize("order", ORDERS)
def test_the_apps_provider_is_found_whenever_it_is_set(order, tmp_path):
    """Before our first span or after it; and nothing is loaded for an app that has none."""
    code = """
        import sys, time
        import llmeval_sdk as llmeval
        llmeval.configure(exporters=["memory"], otel_disabled=%s)
        @llmeval.workflow
        def answer(): return 1
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code % (order == "switched off")) + ORDERS[order]],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == (EXPECTED.get(order, "1"), "")
