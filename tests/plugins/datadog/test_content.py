"""What a span says becomes what ddtrace's annotate takes."""

import math

import pytest

from llmeval_sdk.model import Chunk, Prompt, SpanData, Usage
from llmeval_sdk.plugins.datadog.spans import document, fields_of, messages, prompt_of


def span(kind="workflow", **fields):
    return SpanData("0" * 32, "0" * 16, None, "name", kind, 1, 2, **fields)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("hello", [("user", "hello")]),
        ({"messages": [{"role": "system", "content": "s"}]}, [("system", "s")]),
        ([{"role": "user", "content": None}], [("user", "")]),
        (
            [{"content": [{"type": "text", "text": "x"}]}],
            [("user", '[{"type": "text", "text": "x"}]')],
        ),
        ({"question": 1}, [("user", '{"question": 1}')]),
        ([1, 2], [("user", "[1, 2]")]),
        ({"choices": [{"message": {"role": "assistant", "content": "a"}}]}, [("assistant", "a")]),
        ({"role": "assistant", "content": "a"}, [("assistant", "a")]),
        ([], [("user", "[]")]),
    ],
)
def test_anything_becomes_messages_with_text(given, wanted):
    """A content that is no text is refused by ddtrace."""
    assert [(each["role"], each["content"]) for each in messages(given, "user")] == wanted


def test_tool_calls_keep_their_arguments():
    """OpenAI's shape becomes Datadog's, even where the arguments are no JSON."""
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    odd = {"function": {"name": "g", "arguments": "{"}}
    (found,) = messages([{"role": "assistant", "content": None, "tool_calls": [call, odd]}], "user")
    assert found["tool_calls"][0] == {
        "name": "f", "arguments": {"a": 1}, "tool_id": "1", "type": "function",
    }  # fmt: skip
    assert found["tool_calls"][1]["arguments"] == {"text": "{"}


def test_a_chunk_is_a_document_of_strings():
    """An id that is a number would be refused, and a score that is none."""
    chunk = Chunk(content="text", doc_uri="d", chunk_id=7, score=math.nan, page=3)
    assert document(chunk) == {"text": "text", "name": "d p. 3", "id": "7"}
    assert document(Chunk(doc_uri="d", score=0.5)) == {"text": "", "name": "d", "score": 0.5}


def test_tokens_have_datadogs_names_and_only_on_model_spans():
    """A workflow's sum would be counted twice."""
    usage = Usage(3, 4, 7, 0.5)
    wanted = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7, "total_cost": 0.5}
    assert fields_of(span("llm", usage=usage))["metrics"] == wanted
    assert "metrics" not in fields_of(span("workflow", usage=usage))


def test_what_is_absent_is_left_out():
    """An empty span annotates nothing."""
    assert fields_of(span()) == {}


def test_what_has_no_field_in_datadog_is_metadata():
    """Annotated chunks of a workflow, extractions and ground truth are not lost."""
    found = fields_of(
        span(
            retrieved_context=(Chunk(content="c"),),
            attributes={"a": math.inf},
            expected={
                "expected_facts": ("f",),
                "expected_retrieved_context": (Chunk(doc_uri="d"),),
            },
        )
    )["metadata"]
    assert found == {
        "a": "inf",
        "retrieved_context": [{"text": "c"}],
        "expected_facts": ["f"],
        "expected_retrieved_context": [{"text": "", "name": "d"}],
    }


def test_both_spellings_of_the_prompts_keys_are_taken():
    """Datadog's guide and its code differ."""
    by_guide = {"id": "p", "rag_context_variable_keys": ["docs"], "rag_query_variable_keys": ["q"]}
    by_code = {"id": "p", "rag_context_variables": ["docs"], "rag_query_variables": ["q"]}
    wanted = {"id": "p", "rag_context_variables": ["docs"], "rag_query_variables": ["q"]}
    assert prompt_of(by_guide) == prompt_of(by_code) == wanted
    both = Prompt(template="t", chat_template=({"role": "user", "content": "x"},))
    assert "chat_template" not in prompt_of(both)
