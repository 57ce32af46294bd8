"""What is an answer is said in one place, for texts, values, messages and chat completions."""

from types import SimpleNamespace

import pytest

from llmeval_sdk.model.chat import is_answer


NAN = float("nan")


def chat(**message):
    return {
        "choices": [{"message": {"role": "assistant", **message}}],
        "usage": {"total_tokens": 9},
    }


def gemini(part):
    return {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]}


NOTHING = [
    None, "", " \n\t", NAN, [], {}, (), [None], ["", [" "]], {"value": None}, {"value": {"value": None}},
    {"total": None}, {"response": NAN}, {"value": None, "confidence": "LOW", "chunk_number": 3},
    chat(content=None), chat(content=" "), chat(content=None, tool_calls=[], refusal=None),
    {"choices": []}, {"choices": [{"text": ""}]}, {"role": "assistant"},
    {"role": "assistant", "content": None}, [{"role": "assistant", "content": ""}],
    {"role": "assistant", "type": "message", "content": [{"type": "text", "text": ""}], "id": "m"},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "x"}]},
    {"type": "ai", "content": "", "tool_calls": [], "additional_kwargs": {"refusal": None}},
    {"object": "response", "output": [], "id": "r"},
    {"object": "response", "output": [{"type": "reasoning", "id": "x"}, {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ""}]}]},
    gemini({"text": ""}),
]  # fmt: skip
SOMETHING = [
    "no", 0, False, 0.0, [0], {"value": 0}, {"value": None, "why": "not in the text"}, {"a": [None, 1]},
    chat(content="Slate."), chat(content=None, refusal="I cannot help with that."),
    chat(content=None, tool_calls=[{"id": "1", "function": {"name": "look_up", "arguments": ""}}]),
    {"choices": [{"text": "Slate"}]}, {"choices": [{"delta": {"content": "Sl"}}]},
    {"role": "assistant", "content": [{"type": "tool_use", "name": "look_up", "input": {}}]},
    {"object": "response", "output": [{"type": "function_call", "name": "look_up"}]},
    gemini({"text": "Slate"}), gemini({"functionCall": {"name": "look_up"}}), SimpleNamespace(),
]  # fmt: skip


@pytest.mark.parametrize("value", NOTHING, ids=repr)
def test_what_holds_nothing_is_no_answer(value):
    """However it is wrapped."""
    assert not is_answer(value)


@pytest.mark.parametrize("value", SOMETHING, ids=repr)
def test_what_says_or_does_something_is_an_answer(value):
    """Tool calls and refusals among them, and values that are false."""
    assert is_answer(value)


def test_hostile_values_end_soon_and_never_raise():
    """What is too deep or too wide to be read is taken for an answer, as is what cannot be read."""
    deep = []
    for _ in range(100_000):
        deep = [deep]

    class Liar(dict):
        def get(self, *_):
            raise RuntimeError

    assert all(map(is_answer, (deep, [None] * 1_000_000, Liar(value=None))))
