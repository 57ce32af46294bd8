"""What is sent to Anthropic and Google, and what of their answers is kept."""

import asyncio
import json

import pytest

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.judges.models.prices import price_of
from llmeval_sdk.model import Message
from llmeval_sdk.plugins.providers import AnthropicLLM, GoogleLLM
from llmeval_sdk.testing.provider_server import ServedAnswer


KEY = "key-marker-9f2c71"
PROVIDERS = ("anthropic", "google")
VERDICT = '{"rationale": "because", "rating": "yes"}'


def test_anthropic_is_asked_for_a_strict_schema(serve, ask):
    """By `output_config.format`, with the schema in the part that the strict mode takes."""
    server = serve("anthropic")
    assert json.loads(ask(server).text) == json.loads(VERDICT)
    sent = server.chats[0]
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert "traceparent" not in sent.headers
    wanted = sent.body["output_config"]["format"]
    assert wanted["type"] == "json_schema"
    assert wanted["schema"]["additionalProperties"] is False
    assert sent.body["max_tokens"] == 64 + 4096
    assert "temperature" not in sent.body


def test_google_is_asked_for_a_strict_schema(serve, ask):
    """By `responseJsonSchema`; its newer models are not told a temperature."""
    server = serve("google")
    ask(server, model="gemini-2.5-flash")
    ask(server, model="gemini-3.5-flash")
    old, new = server.chats
    assert old.path.endswith("/models/gemini-2.5-flash:generateContent")
    assert old.headers["x-goog-api-key"] == KEY
    config = old.body["generationConfig"]
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"]["required"] == ["rationale", "rating"]
    assert (config["maxOutputTokens"], config["temperature"]) == (64 + 4096, 0)
    assert "temperature" not in new.body["generationConfig"]
    assert old.body["systemInstruction"]["parts"][0]["text"].startswith("You judge.")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_model_without_strict_schemas_is_asked_in_words(serve, ask, provider):
    """Once: what was learned is kept for the next call."""
    server = serve(provider, default="text_only")
    ask(server)
    ask(server)
    assert server.calls == 3
    assert "this JSON schema: " in json.dumps(server.chats[-1].body)


def test_the_rubric_is_marked_for_anthropic_s_cache(serve, ask):
    """What is the same in each call stands apart from the random boundary of this one."""
    server = serve("anthropic")
    ask(server)
    stable, rest = server.chats[0].body["system"]
    assert stable["cache_control"] == {"type": "ephemeral"}
    assert stable["text"].endswith("Yes or no.")
    assert rest == {"type": "text", "text": "Sections begin with 0123456789abcdef."}
    uncached = AnthropicLLM("m", base_url=server.base_url, api_key=KEY, cache=False)
    ask(server, llm=uncached)
    assert len(server.chats[1].body["system"]) == 1


def test_the_prompts_of_judges_differ_behind_the_mark_only(serve, ask):
    """Two calls of one judge share the part that is cached, byte for byte."""
    from llmeval_sdk import registry
    from llmeval_sdk.model import Record

    server = serve("anthropic", answer=lambda chat: {"rationale": "x", "rating": "yes"})
    llm = AnthropicLLM("m", base_url=server.base_url, api_key=KEY)
    judge = registry.evaluator("relevance_to_query")
    for answer in ("One thing.", "Another thing."):
        asyncio.run(judge.evaluate(Record(request="What?", response=answer), llm))
    (first, one), (second, other) = (chat.body["system"] for chat in server.chats)
    assert first == second
    assert one != other


def test_cached_tokens_have_their_own_price(serve, ask):
    """Anthropic counts them beside the input tokens; both prices of its cache are used."""
    counts = {
        "input_tokens": 100,
        "cache_creation_input_tokens": 1_000,
        "cache_read_input_tokens": 10_000,
        "output_tokens": 50,
    }
    message = {
        "model": "claude-sonnet-4-5-20250929",
        "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": VERDICT}],
        "stop_reason": "end_turn",
        "usage": counts,
    }
    server = serve("anthropic", ServedAnswer(200, json.dumps(message).encode()))
    done = ask(server, model="claude-sonnet-4-5")
    assert (done.usage.input_tokens, done.usage.output_tokens) == (11_100, 50)
    price = price_of("claude-sonnet-4-5")
    usd = (100 * price.input + 1_000 * 3.75 + 10_000 * 0.3 + 50 * price.output) / 1e6
    assert done.usage.cost_usd == pytest.approx(usd)
    assert done.model == "claude-sonnet-4-5-20250929"


def test_thoughts_and_the_cache_of_google_are_counted(serve, ask):
    """Thoughts are paid as output; the cache's tokens are part of the prompt's."""
    answer = {
        "candidates": [
            {
                "content": {"parts": [{"text": "hm", "thought": True}, {"text": VERDICT}]},
                "finishReason": "STOP",
            }
        ],
        "modelVersion": "gemini-2.5-flash",
        "usageMetadata": {
            "promptTokenCount": 5_000,
            "cachedContentTokenCount": 4_000,
            "candidatesTokenCount": 20,
            "thoughtsTokenCount": 300,
            "totalTokenCount": 5_320,
        },
    }
    server = serve("google", ServedAnswer(200, json.dumps(answer).encode()))
    done = ask(server, model="gemini-2.5-flash")
    assert done.text == VERDICT
    assert (done.usage.input_tokens, done.usage.output_tokens) == (5_000, 320)
    assert done.usage.cost_usd == pytest.approx((1_000 * 0.3 + 4_000 * 0.03 + 320 * 2.5) / 1e6)


def test_own_prices_win_over_the_list(serve, ask):
    """For cached tokens too."""
    counts = {"input_tokens": 0, "cache_read_input_tokens": 1_000_000, "output_tokens": 0}
    message = {"content": [{"type": "text", "text": VERDICT}], "usage": counts}
    server = serve("anthropic", ServedAnswer(200, json.dumps(message).encode()))
    own = {"claude-sonnet-4-5": (7.0, 8.0, 2.0)}
    assert ask(server, model="claude-sonnet-4-5", prices=own).usage.cost_usd == pytest.approx(2.0)


def test_what_a_model_does_not_take_is_left_out(serve, ask):
    """Room for thoughts that is refused is not asked for again."""

    def refusing(said):
        body = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
        return ServedAnswer(400, json.dumps(body).encode())

    server = serve(
        "anthropic",
        refusing("max_tokens: 4160 > 4096, which is the maximum allowed number of output tokens"),
    )
    ask(server)
    ask(server)
    assert server.calls == 3
    last = server.chats[-1].body
    assert last["max_tokens"] == 64
    assert "output_config" in last


def test_parameters_are_sent_and_their_mistakes_are_told(serve, ask):
    """Of Anthropic they are merged with the schema; Google's client checks its own."""
    server = serve("anthropic")
    ask(server, parameters={"output_config": {"effort": "low"}})
    assert server.chats[0].body["output_config"]["effort"] == "low"
    assert "format" in server.chats[0].body["output_config"]
    other = serve("google")
    ask(other, parameters={"thinking_config": {"thinking_budget": 0}})
    sent = other.chats[0].body["generationConfig"]
    assert list(sent["thinkingConfig"].values()) == [0]
    with pytest.raises(Exception, match="parameters") as caught:
        ask(other, parameters={"no_such_field": 1})
    assert caught.value.type == "bad_request"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_each_event_loop_has_a_client_of_its_own(serve, ask, provider):
    """One model may be used by several loops, one after the other."""
    server = serve(provider)
    kind = {"anthropic": AnthropicLLM, "google": GoogleLLM}[provider]
    llm = kind("m", base_url=server.base_url, api_key=KEY)
    assert ask(server, llm=llm).text
    assert ask(server, llm=llm).text


def test_a_client_of_one_s_own_is_used(serve):
    """Such as one of Vertex AI: made for the loop that uses it, and closed with it."""
    import anthropic

    server, made = serve("anthropic"), []

    def client():
        made.append(anthropic.AsyncAnthropic(api_key="own", base_url=server.base_url))
        return made[-1]

    llm = AnthropicLLM("m", client=client)
    asyncio.run(llm.complete([Message("user", "question?")]))
    assert server.chats[0].headers["authorization"] == "Bearer own"
    assert made[0].is_closed()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_makes_no_asynchronous_client_is_refused(serve, ask, provider):
    """A blocking client would hold up all judges; the message says what the function returns."""
    import anthropic

    server = serve(provider)
    kind, wanted = {
        "anthropic": (AnthropicLLM, "AsyncAnthropic"),
        "google": (GoogleLLM, r"google\.genai\.Client"),
    }[provider]
    blocking = anthropic.Anthropic(api_key="own", base_url=server.base_url)
    for made in (None, blocking):
        with pytest.raises(JudgeError, match=wanted) as caught:
            ask(server, llm=kind("m", client=lambda made=made: made))
        assert (caught.value.type, caught.value.retryable) == ("bad_request", False)
    assert not server.calls


def test_a_client_of_another_cloud_is_taken(serve, ask):
    """Claude on Vertex AI is reached by a client of the same package."""
    import anthropic

    message = {"content": [{"type": "text", "text": VERDICT}]}
    server = serve("anthropic")
    server.reply = lambda seen: ServedAnswer(200, json.dumps(message).encode())

    def make():
        return anthropic.AsyncAnthropicVertex(
            region="nowhere", project_id="mine", access_token="own", base_url=server.base_url
        )

    assert ask(server, llm=AnthropicLLM("m", client=make, attempts=1)).text
    assert server.requests[0].headers["authorization"] == "Bearer own"


def test_no_header_of_the_environment_reaches_anthropic_s_server(serve, ask, monkeypatch):
    """The provider's client reads them by itself; the key that arrives is the one of the model."""
    headers = (
        "X-Gateway-Secret: secret-of-gateway\nauthorization: Bearer secret-of-another\n"
        "x-api-key: secret-key\ncontent-type: text/plain\nanthropic-version: secret-version"
    )
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", headers)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "secret-token")
    server = serve("anthropic")
    ask(server)
    sent = server.chats[0].headers
    assert "secret" not in str(sent)
    assert sent["authorization"] == f"Bearer {KEY}"
    assert sent["content-type"] == "application/json"
    assert "anthropic-version" in sent


def test_the_judge_s_calls_are_not_traced_as_the_app_s(serve, ask):
    """An app that has these clients instrumented sees its own calls only."""
    pytest.importorskip("opentelemetry.sdk")
    instrumentation = pytest.importorskip("openinference.instrumentation.anthropic")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    instrumentor = instrumentation.AnthropicInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    try:
        ask(serve("anthropic"))
    finally:
        instrumentor.uninstrument()
    assert spans.get_finished_spans() == ()


@pytest.mark.parametrize("whose", ["ours", "the app's"])
def test_tools_that_wrap_google_s_client_see_no_judge(serve, ask, monkeypatch, whose):
    """As ddtrace does, which knows nothing of OpenTelemetry's way to be quiet."""
    import functools

    from google import genai
    from google.genai.models import AsyncModels

    asked = AsyncModels.generate_content

    @functools.wraps(asked)
    async def traced(self, **options):
        raise AssertionError("the judge was traced")

    monkeypatch.setattr(AsyncModels, "generate_content", traced)
    server = serve("google")

    def client():
        http = genai.types.HttpOptions(base_url=server.base_url)
        return genai.Client(vertexai=False, api_key="own", http_options=http)

    assert ask(server, llm=GoogleLLM("m", client=client) if whose == "the app's" else None).text
