"""Model calls as metrics of the app's meter provider, by OpenTelemetry's conventions."""

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from llmeval_sdk.exporters.otlp.app_providers import MAX_WORDS, Histogram
from llmeval_sdk.model import JUDGE_TAG, Batch, Failure, SpanData, Usage


def call(number=1, model="gpt-4o", **more):
    given = {
        "model_name": model, "model_provider": "openai", "usage": Usage(100, 20, 120),
        "metrics": {"time_to_first_token": 0.25}, **more,
    }  # fmt: skip
    return SpanData("a" * 32, f"{number:016x}", None, "chat", "llm", 1_000, 2_000_001_000, **given)


def points(*spans):
    """Return the points of each metric that some spans make."""
    reader = InMemoryMetricReader()
    Histogram(MeterProvider([reader], shutdown_on_exit=False)).record(Batch(spans))
    data = reader.get_metrics_data()
    return {
        metric.name: metric.data.data_points
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def test_a_call_has_its_tokens_duration_and_first_part():
    """Names, units and attributes are those of the conventions for clients of models."""
    made = points(call())
    about = {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
    }  # fmt: skip
    tokens = {
        point.attributes["gen_ai.token.type"]: point.sum
        for point in made["gen_ai.client.token.usage"]
    }
    assert tokens == {"input": 100, "output": 20}
    (took,) = made["gen_ai.client.operation.duration"]
    assert (took.sum, dict(took.attributes)) == (2.0, about)
    (first,) = made["gen_ai.client.operation.time_to_first_chunk"]
    assert (first.sum, dict(first.attributes)) == (0.25, about)


def test_a_failed_call_says_how_it_failed():
    """Its duration has the type of the error."""
    (took,) = points(call(error=Failure("TimeoutError", "")))["gen_ai.client.operation.duration"]
    assert took.attributes["error.type"] == "TimeoutError"


def test_calls_of_judges_and_clocks_that_jump_are_no_durations():
    """Only the app's own calls are measured, and only those that end after they begin."""
    assert points(call(tags={JUDGE_TAG: "groundedness"})) == {}
    assert "gen_ai.client.operation.duration" not in points(
        SpanData("a" * 32, "b" * 16, None, "chat", "llm", 2_000, 1_000)
    )


def test_names_without_end_make_no_series_without_end():
    """After some hundred names of models, the others are one."""
    made = points(*(call(number, f"model-{number}") for number in range(1, 2_000)))
    names = {
        point.attributes["gen_ai.request.model"]
        for point in made["gen_ai.client.operation.duration"]
    }
    assert len(names) == MAX_WORDS + 1
    assert "_OTHER" in names
