"""Values are written as the encoder of JSON writes them, and each long text is escaped once."""

import json
from enum import Enum

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from llmeval_sdk.exporters.otlp import json_texts
from llmeval_sdk.exporters.otlp.json_texts import ENCODER, JsonTexts
from llmeval_sdk.exporters.otlp.wire import fields, span_bytes
from llmeval_sdk.model import Chunk, SpanData
from llmeval_sdk.process.pieces import MAX_READ


LONG = 'A "quoted" passage\nof \\ several lines,\tand more. ' * 12
ODD = ("\x00", "\x1b[1m", "\x7f", "é", "\u2028", "\ud800", "\U0001f600", "\r\n", '\\"', "\\n", "")


class Kind(str, Enum):
    A = "a"


texts = st.one_of(
    st.text(max_size=20),
    st.builds(
        lambda odd, at: LONG[:at] + odd + LONG[at:], st.sampled_from(ODD), st.integers(0, 500)
    ),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts, st.just(Kind.A)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(texts, inner, max_size=4),
        st.dictionaries(st.integers(), inner, max_size=2),
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(values)
@example([LONG, {"a": LONG, "b": [LONG, 1.5, float("nan"), -0.0, True, None, 10**30]}])
def test_values_are_written_as_the_encoder_writes_them(value):
    """To the character, whatever signs a text has."""
    assert JsonTexts().dumps(value) == ENCODER.encode(value)


@pytest.mark.parametrize("size", [MAX_READ - 1, MAX_READ + 1, 3 * MAX_READ])
def test_a_text_that_is_read_in_pieces_is_the_same(size):
    """No call into C reads more than its bound."""
    text = (LONG * (size // len(LONG) + 1))[:size]
    value = {"role": "user", "content": text, "again": [text]}
    assert json.loads(JsonTexts().dumps(value)) == value
    assert json.loads(JsonTexts().quote(text)) == text


def test_a_text_of_several_attributes_is_escaped_once(monkeypatch):
    """The passages of a retrieval are documents and pages; messages stand as the app had them, too."""
    escaped = []
    write = json_texts.json_text
    monkeypatch.setattr(
        json_texts, "json_text", lambda by, text: escaped.append(text) or write(by, text)
    )
    passages = [f"{number}. {LONG}" for number in range(5)]
    found = tuple(Chunk(content=passage) for passage in passages)
    ids = "1" * 32, "2" * 16, None
    span_bytes(SpanData(*ids, "r", "retrieval", 1, 2, request="Why?", retrieved_context=found))
    assert escaped == passages
    escaped.clear()
    prompt = {
        "messages": [{"role": "system", "content": "s" * 300}, {"role": "user", "content": LONG}]
    }
    span_bytes(SpanData(*ids, "l", "llm", 1, 2, request=prompt, response={"answer": LONG + "!"}))
    assert sorted(set(escaped)) == sorted(escaped)


def test_the_framing_of_long_and_short_values_can_be_read():
    """Lengths of one, two and three bytes, of texts, numbers and lists."""
    for size in (0, 1, 127, 128, 16_383, 16_384, 70_000):
        span = SpanData(
            "1" * 32, "2" * 16, None, "n", "task", 1, 2, request="é" * size, tags={"t": "v" * size}
        )
        written = [part for number, part in fields(span_bytes(span)) if number == 9]
        read = [dict(fields(part)) for part in written]
        about = {pair[1].decode(): dict(fields(pair[2])) for pair in read}
        assert about["input.value"][1].decode() == "é" * size
