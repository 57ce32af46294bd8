"""A judge's run is a trace of its own that says what it cost, apart from the app's."""

from __future__ import annotations

import llmeval_sdk as llmeval
from llmeval_sdk.testing import capture


PRICES = {"stand-in": (1.0, 10.0)}


def test_the_run_has_its_calls_below_it(serve, judging, answer):
    """One root with one link, tokens and cost; below it one llm span per call of the model."""
    with judging(serve(), prices=PRICES) as seen:
        answer()
        seen.drain()
    judged, run, call = seen.span("answer"), seen.span("groundedness"), seen.span("chat")
    assert (run.kind, run.parent_id, run.trace_id != judged.trace_id) == ("workflow", None, True)
    assert [link.span_id for link in run.links] == [judged.span_id]
    assert (call.kind, call.parent_id, call.trace_id) == ("llm", run.span_id, run.trace_id)
    assert call.model_name == "stand-in"
    assert call.usage == run.usage
    assert call.usage.total_tokens > 100
    tokens = call.usage
    assert call.usage.cost_usd == (tokens.input_tokens + 10 * tokens.output_tokens) / 1e6
    assert run.start_ns <= call.start_ns < call.end_ns <= run.end_ns
    assert {span.tags.get("llmeval.judge") for span in (run, call)} == {"groundedness"}


def test_each_chunk_is_a_call(serve, judging):
    """A judge per chunk has one call for each, and their sum on its root."""
    with judging(serve(), "chunk_relevance") as seen:
        with llmeval.workflow("answer", request="When was the mill built?") as span:
            span.retrieved_context = [{"content": f"{n}: the mill was built"} for n in range(3)]
        seen.drain()
    run = seen.span("chunk_relevance")
    calls = [span for span in seen.spans if span.parent_id == run.span_id]
    assert len(calls) == 3
    assert run.usage.total_tokens == sum(call.usage.total_tokens for call in calls)


def test_a_failed_call_stands_in_the_trace(serve, judging, answer):
    """Root and call say why there is no verdict."""
    with judging(serve(default="refusal")) as seen:
        answer()
        seen.drain()
    assert seen.span("groundedness").error.type == "refused"
    assert seen.span("chat").error.type == "refused"


def test_judging_is_told_apart_from_the_apps_own_use(serve, judging):
    """stats().judge_usage is the judges'; the app's llm spans do not add to it, nor they to it."""
    with judging(serve(), "groundedness", "total_token_count", prices=PRICES) as seen:
        with llmeval.workflow("answer", request="When was the mill built?") as span:
            with llmeval.llm(model_name="gpt-4o") as call:
                call.annotate(metrics={"input_tokens": 7, "output_tokens": 3, "total_tokens": 10})
            span.retrieved_context = [{"content": "The mill was built in 1786."}]
            span.response = "The mill was built in 1786."
        stats = seen.drain()
    verdict = seen.scores("answer")["groundedness"]
    assert stats.judge_usage == verdict.usage
    assert stats.judge_usage.cost_usd > 0
    apps = [span for span in seen.spans if "llmeval.judge" not in span.tags]
    assert sorted(span.kind for span in apps) == ["llm", "workflow"]
    assert seen.scores("answer")["total_token_count"].value == 10


def test_runs_are_never_evaluated(serve, answer):
    """No heuristic scores a judge's run, and no judge judges it."""
    from llmeval_sdk.judges.models import OpenAILLM

    server = serve()
    llm = OpenAILLM("stand-in", base_url=server.base_url, api_key="k")
    with capture(llm=llm, evaluators=["groundedness", "relevance_to_query"]) as seen:
        answer()
        seen.drain()
        seen.drain()
    targets = {event.target.span_name for event in seen.evaluations}
    assert targets == {"answer"}
    assert server.calls == 2


def test_content_can_stay_out_of_the_runs(serve, judging, answer):
    """With capture off, neither the verdict's words nor the model's reply are exported."""
    with judging(serve(), capture_content=False) as seen:
        answer()
        seen.drain()
    assert seen.span("chat").response is None
    assert seen.span("groundedness").response == {"value": "yes"}
