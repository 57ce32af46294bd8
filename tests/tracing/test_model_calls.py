"""What a model call is measured by: its tokens, those of a cache and of reasoning, its first part."""

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.exporters import memory
from llmeval_sdk.judges.models.prices import price_of
from llmeval_sdk.model.fields import TRUNCATED
from llmeval_sdk.process.shield import caught
from llmeval_sdk.testing import capture
from llmeval_sdk.tracing._capture import NODES, ROOM


@pytest.fixture(autouse=True)
def recorded():
    llmeval.configure(exporters=["memory"], prices={"m": (2.0, 10.0, 0.5, 4.0)})


def only_span():
    llmeval.flush(timeout=10)
    return memory.spans()[-1]


OPENAI = {
    "prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100,
    "prompt_tokens_details": {"cached_tokens": 400, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 60},
}  # fmt: skip
RESPONSES = {
    "input_tokens": 1_000, "output_tokens": 100, "total_tokens": 1_100,
    "input_tokens_details": {"cached_tokens": 400},
    "output_tokens_details": {"reasoning_tokens": 60},
}  # fmt: skip
LANGCHAIN = {
    "input_tokens": 1_000, "output_tokens": 100, "total_tokens": 1_100,
    "input_token_details": {"cache_read": 400}, "output_token_details": {"reasoning": 60},
}  # fmt: skip
DATADOG = {
    "input_tokens": 1_000, "output_tokens": 100, "total_tokens": 1_100,
    "cache_read_input_tokens": 400, "reasoning_output_tokens": 60,
}  # fmt: skip


@pytest.mark.parametrize("usage", [OPENAI, RESPONSES, LANGCHAIN, DATADOG])
@pytest.mark.parametrize("is_annotated", [False, True])
def test_cached_and_reasoning_tokens_are_read_and_priced(usage, is_annotated):
    """In whichever spelling they come, cached input costs its own price, reasoning that of output."""
    with llmeval.llm("m") as span:
        if is_annotated:
            span.annotate(metrics=usage)
        else:
            span.response = {"content": "Slate.", "usage": usage}
    done = only_span()
    assert (done.usage.input_tokens, done.usage.output_tokens) == (1_000, 100)
    assert done.metrics["cache_read_input_tokens"] == 400
    assert done.metrics["reasoning_output_tokens"] == 60
    assert done.usage.cost_usd == pytest.approx((600 * 2 + 400 * 0.5 + 100 * 10) / 1e6)


def test_anthropic_counts_cached_tokens_beside_the_input():
    """Its input is what no cache had or keeps, so both are added to it."""
    with llmeval.llm("m") as span:
        span.response = {
            "content": "Slate.",
            "usage": {
                "input_tokens": 100, "output_tokens": 10, "cache_read_input_tokens": 800,
                "cache_creation_input_tokens": 50,
            },
        }  # fmt: skip
    done = only_span()
    assert done.usage.input_tokens == 950
    assert done.usage.cost_usd == pytest.approx((100 * 2 + 800 * 0.5 + 50 * 4 + 10 * 10) / 1e6)


OPENAI_WRITES = {
    "input_tokens": 950, "output_tokens": 10, "total_tokens": 960,
    "input_tokens_details": {"cached_tokens": 800, "cache_write_tokens": 50},
}  # fmt: skip
LANGCHAIN_WRITES = {
    "input_tokens": 950, "output_tokens": 10, "total_tokens": 960,
    "input_token_details": {"cache_read": 800, "cache_creation": 50},
}  # fmt: skip
LITELLM_WRITES = {
    "prompt_tokens": 950, "completion_tokens": 10, "total_tokens": 960,
    "cache_read_input_tokens": 800, "cache_creation_input_tokens": 50,
    "prompt_tokens_details": {"cached_tokens": 800, "cache_creation_tokens": 50},
}  # fmt: skip


@pytest.mark.parametrize("usage", [OPENAI_WRITES, LANGCHAIN_WRITES, LITELLM_WRITES])
def test_what_a_cache_keeps_is_read_and_priced_in_every_spelling(usage):
    """It is part of an input that comes with a total, and costs its own price."""
    with llmeval.llm("m") as span:
        span.response = {"content": "Slate.", "usage": usage}
    done = only_span()
    assert done.usage.input_tokens == 950
    assert done.metrics["cache_write_input_tokens"] == 50
    assert done.usage.cost_usd == pytest.approx((100 * 2 + 800 * 0.5 + 50 * 4 + 10 * 10) / 1e6)


def test_an_unknown_kind_of_tokens_is_told_once(caplog):
    """The log names it once, harmlessly; stats() counts each; known ones and zeros are silent."""
    usage = {
        **OPENAI, "plasma\n_tokens": 3, "new_tokens": 0,
        "completion_tokens_details": {"reasoning_tokens": 60, "hologram_tokens": 7},
    }  # fmt: skip
    for _ in range(3):
        with llmeval.llm("m") as span:
            span.response = {"content": "Slate.", "usage": usage}
        assert only_span().usage.input_tokens == 1_000
    lines = [record.getMessage() for record in caplog.records]
    assert sum("plasma _tokens" in line for line in lines) == 1
    assert sum("hologram_tokens" in line for line in lines) == 1
    assert not any("reasoning" in line or "new_tokens" in line for line in lines)
    assert llmeval.stats().problems["usage: tokens of an unknown kind"] == 6


def test_tokens_of_text_are_no_unknown_kind():
    """OpenTelemetry's instrumentations count tokens of text apart; pictures and sound cost more."""
    usage = {
        **OPENAI, "text_input_tokens": 900, "text_output_tokens": 60,
        "text_cache_read_input_tokens": 400, "image_input_tokens": 100,
    }  # fmt: skip
    before = llmeval.stats().problems.get("usage: tokens of an unknown kind", 0)
    with llmeval.llm("m") as span:
        span.response = {"content": "Slate.", "usage": usage}
    assert only_span().metrics["cache_read_input_tokens"] == 400
    assert llmeval.stats().problems["usage: tokens of an unknown kind"] == before + 1


def test_ten_thousand_kinds_of_tokens_are_bounded(caplog):
    """A hostile usage fills neither the log nor the memory."""
    usage = {**OPENAI, **{f"kind-{number}_tokens": 1 for number in range(10_000)}}
    with llmeval.llm("m") as span:
        span.response = {"content": "Slate.", "usage": usage}
    only_span()
    assert sum("kind-" in record.getMessage() for record in caplog.records) <= 100


def test_an_input_that_comes_with_a_total_contains_what_a_cache_took_part_in():
    """Gateways spell it as Anthropic does, but do not count it apart: it is not added once more."""
    usage = {
        "prompt_tokens": 950, "completion_tokens": 10, "total_tokens": 960,
        "cache_read_input_tokens": 800, "cache_creation_input_tokens": 50,
    }  # fmt: skip
    with llmeval.llm("m") as span:
        span.response = {"content": "Slate.", "usage": usage}
    done = only_span()
    assert done.usage.input_tokens == 950
    assert done.usage.cost_usd == pytest.approx((100 * 2 + 800 * 0.5 + 50 * 4 + 10 * 10) / 1e6)


def test_negative_tokens_are_no_tokens_and_are_counted():
    """A number that cannot be is left out, and stats() says how often."""
    before = caught.snapshot().get("a negative number of tokens", 0)
    with llmeval.llm("m") as span:
        span.annotate(metrics={"input_tokens": -5, "output_tokens": 10})
    assert only_span().usage.input_tokens == 0
    assert llmeval.stats().problems["a negative number of tokens"] > before


def test_the_request_above_has_the_same_cost():
    """What evaluators see of a request is what its calls cost, cached tokens included."""
    seen = []

    @llmeval.heuristic
    def cost(record: llmeval.Record) -> float:
        seen.append(record.usage.cost_usd)
        return 1.0

    with llmeval.workflow("answer", evaluators=[cost]) as span:
        with llmeval.llm("m") as call:
            call.response = {"content": "Slate.", "usage": OPENAI}
        span.response = "Slate."
    only_span()
    assert seen == [pytest.approx((600 * 2 + 400 * 0.5 + 100 * 10) / 1e6)]


def test_a_stream_is_timed_to_its_first_part():
    """The seconds until a generator yields something stand among the metrics of its span."""

    @llmeval.llm(model_name="m")
    def stream(parts):
        yield from parts

    assert list(stream(["Sl", "ate."])) == ["Sl", "ate."]
    done = only_span()
    assert 0 < done.metrics["time_to_first_token"] <= (done.end_ns - done.start_ns) / 1e9
    list(stream([]))
    assert "time_to_first_token" not in only_span().metrics


def test_the_user_is_carried_to_another_process():
    """What a caller injects makes the spans of the other side those of its session and user."""
    headers = {}
    with llmeval.workflow("front", session_id="chat 7"):
        llmeval.annotate(user_id="user/17")
        with llmeval.task("call"):
            llmeval.tracing.inject(headers)
    with llmeval.tracing.extract(headers), llmeval.workflow("back"):
        pass
    with llmeval.workflow("later"):
        pass
    llmeval.flush(timeout=10)
    found = {span.name: span for span in memory.spans()}
    assert found["back"].tags == {"user_id": "user/17"}
    assert found["back"].session_id == "chat 7"
    assert not found["later"].tags


def test_ten_thousand_tags_are_bounded():
    """What a span keeps of them has a limit, and the span is recorded all the same."""
    with capture() as seen:
        with llmeval.workflow("request"):
            for part in range(10):
                llmeval.annotate(tags={f"tag-{part}-{n}": "x" * 1_000 for n in range(1_000)})
        seen.drain()
        tags = seen.span("request").tags
    assert 0 < len(tags) <= NODES + 1  # one says that there were more
    assert sum(len(str(text)) for text in tags.values()) <= ROOM + NODES * (len(TRUNCATED) + 20)


AUDIO = {
    "openai": {
        "prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 400},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 50},
    },
    "realtime": {
        "input_tokens": 1_000, "output_tokens": 100, "total_tokens": 1_100,
        "input_token_details": {"text_tokens": 600, "audio_tokens": 400},
        "output_token_details": {"text_tokens": 50, "audio_tokens": 50},
    },
    "langchain": {
        "input_tokens": 1_000, "output_tokens": 100, "total_tokens": 1_100,
        "input_token_details": {"audio": 400}, "output_token_details": {"audio": 50},
    },
    "flat": {
        "input_tokens": 1_000, "output_tokens": 100,
        "input_audio_tokens": 400, "output_audio_tokens": 50,
    },
}  # fmt: skip


@pytest.mark.parametrize("spelling", AUDIO)
def test_sound_costs_its_own_price_where_the_list_has_one(spelling, caplog):
    """In whichever spelling its tokens come; nothing is said of an unknown kind."""
    with llmeval.llm("gpt-realtime") as span:
        span.response = {"content": "Slate.", "usage": AUDIO[spelling]}
    done = only_span()
    price = price_of("gpt-realtime")
    text, sound = 600 * price.input + 50 * price.output, 400 * price.input_audio
    assert done.usage.cost_usd == pytest.approx((text + sound + 50 * price.output_audio) / 1e6)
    assert price.input < price.input_audio
    assert not caplog.records


def test_what_anthropics_cache_keeps_for_an_hour_costs_its_own_price():
    """It is part of what the cache keeps."""
    with llmeval.llm("claude-sonnet-4-6") as span:
        span.response = {
            "content": "Slate.",
            "usage": {
                "input_tokens": 100, "output_tokens": 10, "cache_read_input_tokens": 0,
                "cache_creation_input_tokens": 50,
                "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 30},
            },
        }  # fmt: skip
    done = only_span()
    price = price_of("claude-sonnet-4-6")
    kept = 20 * price.cache_write + 30 * price.cache_write_1h
    assert done.usage.cost_usd == pytest.approx(
        (100 * price.input + kept + 10 * price.output) / 1e6
    )
