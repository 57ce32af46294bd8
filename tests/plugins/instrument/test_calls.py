"""Each call of an instrumented client is one span and one record, whatever its shape."""

import asyncio
import gc

import openai
import pytest
from pydantic import BaseModel

import llmeval_sdk as llmeval


QUESTION = [{"role": "user", "content": "Which roof?"}]
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}


@pytest.fixture(params=["patched", "wrapped"])
def client(request, openai_client):
    """A client of OpenAI that is traced, by either door."""
    if request.param == "patched":
        llmeval.instrument("openai")
        return openai_client
    return llmeval.wrap_openai(openai_client)


def only_span(seen):
    seen.drain()
    (span,) = seen.spans
    return span


def tokens(span):
    return span.usage and (span.usage.input_tokens, span.usage.output_tokens)


def test_a_chat_completion_is_a_span_and_a_record_of_its_own(client, seen, records):
    """Question, answer, model and tokens are there, and the exporters get the span."""
    client.chat.completions.create(model="gpt-4o", messages=QUESTION)
    span = only_span(seen)
    assert (span.kind, span.response, tokens(span)) == ("llm", "Slate.", (5, 2))
    assert (span.model_name, span.parent_id, span.error) == ("gpt-4o-2026", None, None)
    assert [(record.response, record.span_kind) for record in records] == [("Slate.", "llm")]
    assert "what_was_seen" in seen.scores(span.name)


def test_a_stream_has_its_tokens_and_its_time_to_the_first_token(client, seen):
    """The answer is joined, and the wait for its first part is measured in seconds."""
    parts = list(client.chat.completions.create(model="gpt-4o", messages=QUESTION, **STREAMED))
    span = only_span(seen)
    assert len(parts) == 4  # nothing is added to what the app reads, and nothing taken away
    assert (span.response, tokens(span)) == ("Slate.", (5, 2))
    whole = (span.end_ns - span.start_ns) / 1e9
    assert 0 < span.metrics["time_to_first_token"] <= whole


def test_what_the_app_sends_is_not_changed(client, seen, provider):
    """A stream whose usage the app does not ask for has none: not every server takes the option."""
    list(client.chat.completions.create(model="gpt-4o", messages=QUESTION, stream=True))
    assert "stream_options" not in provider.requests[-1][1]
    assert (only_span(seen).response, only_span(seen).usage) == ("Slate.", None)


@pytest.mark.parametrize("streams", [False, True])
def test_a_call_of_a_tool_is_in_the_steps_of_the_request(client, seen, records, provider, streams):
    """The model asked for a tool: a workflow around it has that call among its steps."""
    provider.calls_tool = True
    with llmeval.workflow("answer", request="Which roof?") as span:
        reply = client.chat.completions.create(model="gpt-4o", messages=QUESTION, stream=streams)
        list(reply) if streams else None
        span.response = "Slate."
    seen.drain()
    calls = [step for step in records[-1].steps or () if "look_up" in str(step)]
    assert calls, records[-1].steps


def test_the_responses_api_is_traced_plain_and_streamed(client, seen):
    """Cached and reasoning tokens are among the metrics."""
    client.responses.create(model="gpt-4o", input="Which roof?")
    list(client.responses.create(model="gpt-4o", input="Which roof?", stream=True))
    with client.responses.stream(model="gpt-4o", input="Which roof?") as stream:
        stream.until_done()
    seen.drain()
    assert [span.response for span in seen.spans] == ["Slate."] * 3
    assert [tokens(span) for span in seen.spans] == [(5, 2)] * 3
    for span in seen.spans:
        assert span.metrics["cache_read_input_tokens"] == 4
        assert span.metrics["reasoning_output_tokens"] == 1


class Roof(BaseModel):
    material: str


def test_structured_output_is_traced(client, seen, provider):
    """`parse` returns what it did, and the span has the text that the model wrote."""
    provider.answer = '{"material": "slate"}'
    reply = client.chat.completions.parse(model="gpt-4o", messages=QUESTION, response_format=Roof)
    assert reply.choices[0].message.parsed == Roof(material="slate")
    with client.chat.completions.stream(
        model="gpt-4o", messages=QUESTION, response_format=Roof
    ) as stream:
        stream.until_done()
    seen.drain()
    assert [span.response for span in seen.spans] == [provider.answer] * 2


def test_embeddings_are_spans_of_their_kind(client, seen):
    """They are no model call that is judged; they cost tokens, and their vectors are not kept."""
    client.embeddings.create(model="text-embedding-3-small", input="roof")
    span = only_span(seen)
    assert (span.kind, span.model_name) == ("embedding", "text-embedding-3-small")
    assert (span.request, span.response) == ("roof", None)
    assert (span.usage.input_tokens, span.usage.total_tokens) == (3, 3)
    assert span.usage.cost_usd > 0


def test_many_texts_are_embedded_in_one_call(client, seen):
    """The request is the list of them."""
    client.embeddings.create(model="e", input=["roof", "wall"])
    assert only_span(seen).request == ["roof", "wall"]


def test_a_client_with_options_is_traced_too(client, seen):
    """`with_options` makes a further client."""
    client.with_options(timeout=20).chat.completions.create(model="gpt-4o", messages=QUESTION)
    assert only_span(seen).response == "Slate."


@pytest.mark.parametrize("door", ["patched", "wrapped"])
@pytest.mark.parametrize("streams", [False, True])
def test_asynchronous_calls_are_traced(door, streams, provider, seen):
    """The asynchronous client is traced by both doors, also when its calls run side by side."""

    async def one(client):
        options = STREAMED if streams else {}
        reply = await client.chat.completions.create(model="gpt-4o", messages=QUESTION, **options)
        if streams:
            async for _ in reply:
                pass

    async def run():
        async with openai.AsyncOpenAI(
            base_url=provider.base_url, api_key="none", max_retries=0
        ) as client:
            traced = llmeval.wrap_openai(client) if door == "wrapped" else client
            await asyncio.gather(*(one(traced) for _ in range(3)))

    if door == "patched":
        llmeval.instrument("openai")
    asyncio.run(run())
    seen.drain()
    assert [(span.response, tokens(span)) for span in seen.spans] == [("Slate.", (5, 2))] * 3
    assert len({span.trace_id for span in seen.spans}) == 3


@pytest.mark.parametrize("how", ["dropped", "closed", "left"])
def test_a_stream_that_is_not_read_to_its_end_is_a_span(client, seen, how):
    """Dropped unread, closed early or left in the middle: the span ends, with what was read."""
    stream = client.chat.completions.create(model="gpt-4o", messages=QUESTION, **STREAMED)
    if how == "closed":
        next(stream)
        stream.close()
    elif how == "left":
        with stream:
            next(stream)
            next(stream)
    del stream
    gc.collect()
    span = only_span(seen)
    assert (span.error, span.usage) == (None, None)
    assert span.response in {"dropped": (None, ""), "closed": (None, ""), "left": ("Sl",)}[how]


def test_a_stream_that_breaks_is_an_error_with_what_was_read(client, seen, provider):
    """The app gets the exception of its client, and the span has the half answer and the error."""
    provider.breaks_after = 2
    with pytest.raises(Exception) as caught:
        list(client.chat.completions.create(model="gpt-4o", messages=QUESTION, **STREAMED))
    assert "llmeval" not in type(caught.value).__module__
    span = only_span(seen)
    assert span.response == "Sl"
    assert span.error.type == type(caught.value).__name__


def test_an_exception_of_the_app_inside_a_stream_passes(client, seen):
    """What the app raises while it reads is its own, and the span ends."""
    with pytest.raises(ZeroDivisionError):
        with client.chat.completions.create(model="gpt-4o", messages=QUESTION, **STREAMED) as parts:
            for _ in parts:
                1 / 0
    assert only_span(seen).error.type == "ZeroDivisionError"


def test_a_refused_call_is_an_error(client, seen, provider):
    """The app gets the client's exception."""
    provider.status = 500
    with pytest.raises(openai.InternalServerError):
        client.chat.completions.create(model="gpt-4o", messages=QUESTION)
    span = only_span(seen)
    assert span.error.type == "InternalServerError"
    assert (span.model_name, span.model_provider) == ("gpt-4o", "openai")


@pytest.mark.parametrize(
    "usage",
    [None, {"prompt_tokens": -5, "completion_tokens": -2, "total_tokens": -7}],
)
def test_missing_or_negative_usage_is_no_usage(client, seen, provider, usage):
    """Nothing that did not happen is counted."""
    provider.usage = usage
    client.chat.completions.create(model="gpt-4o", messages=QUESTION)
    span = only_span(seen)
    assert (span.response, span.usage) == ("Slate.", None)


def test_anthropics_client_is_traced(provider, seen):
    """Plain, streamed and by its helper for streams."""
    anthropic = pytest.importorskip("anthropic")
    llmeval.instrument("anthropic")
    options = {"model": "claude-x", "max_tokens": 9, "messages": QUESTION}
    with anthropic.Anthropic(base_url=provider.root_url, api_key="none", max_retries=0) as client:
        client.messages.create(**options)
        list(client.messages.create(**options, stream=True))
        with client.messages.stream(**options) as stream:
            stream.until_done()
    seen.drain()
    assert [(span.response, tokens(span)) for span in seen.spans] == [("Slate.", (5, 2))] * 3
    assert {span.model_name for span in seen.spans} == {"claude-x"}
