"""Requests that ddtrace traced hold the passages that stand in the prompts of their model calls."""

from llmeval_sdk.model.records import record_of
from llmeval_sdk.plugins.datadog.source import evaluated


def event(span_id, parent, kind, name, asked, answered, **given):
    """Return what ddtrace keeps of a span of LLM Observability."""
    return {
        "trace_id": "ab" * 16, "span_id": str(span_id), "parent_id": parent, "name": name,
        "start_ns": 1_767_225_600_000_000_000 + span_id, "duration": 1_000_000,
        "meta": {
            "span": {"kind": kind},
            "input": {**asked, **given},
            "output": answered,
        },
    }  # fmt: skip


def test_a_prompts_context_reaches_the_workflow_above():
    """`LLMObs.annotation_context(prompt=…)` inside `@workflow`: its groundedness lacks no input."""
    prompt = {
        "variables": {"docs": "The roof is slate.", "question": "Which roof?"},
        "_dd_context_variable_keys": ["docs"],
    }
    call = event(
        2, "1", "llm", "ask", {"messages": [{"role": "user", "content": "Which roof?"}]},
        {"messages": [{"content": "Slate.", "role": "assistant"}]}, prompt=prompt,
    )  # fmt: skip
    flow = event(
        1, "undefined", "workflow", "answer", {"value": "Which roof?"}, {"value": "Slate."}
    )
    spans = list(evaluated([(call, False), (flow, False)], ()))
    (top,) = [span for span in spans if span.name == "answer"]
    record = record_of(top, top.gathered)
    assert (record.request, record.response) == ("Which roof?", "Slate.")
    assert [chunk.content for chunk in record.retrieved_context] == ["The roof is slate."]


def test_a_span_of_ddtraces_below_another_service_is_a_local_root():
    """Its parent is kept, and said to be no span of ours; a step below it is none."""
    said = {"value": "Which roof?"}, {"value": "Slate."}
    flow = event(7, "3", "workflow", "answer", *said)
    step, alone = event(8, "7", "task", "step", *said), event(9, "undefined", "task", "x", *said)
    spans = evaluated([(flow, False), (step, False), (alone, False)], ())
    assert {span.name: (span.parent_id, span.outside_parent) for span in spans} == {
        "answer": (f"{3:016x}", True),
        "step": (f"{7:016x}", False),
        "x": (None, False),
    }
