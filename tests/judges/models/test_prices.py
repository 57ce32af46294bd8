"""Which price a name of a model has, and what a usage costs by it."""

from datetime import date

import pytest

from llmeval_sdk.judges.models.prices import Price, cost, price_of
from llmeval_sdk.model import Usage


@pytest.mark.parametrize(
    ("model", "listed"),
    [
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("gpt-4.1-20250414", "gpt-4.1"),
        ("GPT-4o-2024-08-06", "gpt-4o"),
        ("gpt-35-turbo", "gpt-3.5-turbo"),
        ("openai/gpt-4.1-nano", "gpt-4.1-nano"),
        ("azure/gpt-4o", "gpt-4o"),
        ("azure/gpt-5.1-2025-11-13", "gpt-5.1"),
        ("our-gateway/team-a/gpt-4o", "gpt-4o"),
        ("openrouter/openai/gpt-4o", "openrouter/openai/gpt-4o-latest"),
        ("anthropic/claude-opus-4.5", "claude-opus-4-5"),
        ("anthropic/claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-3-5-sonnet@20240620", "claude-3-5-sonnet"),
        ("us.anthropic.claude-3-5-sonnet-20241022-v2:0", "claude-3-5-sonnet"),
        ("bedrock/eu.anthropic.claude-sonnet-4-6-v1:0", "bedrock/anthropic.claude-sonnet-4-6"),
        (
            "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-4-6-v1:0",
            "bedrock/us.anthropic.claude-opus-4-6",
        ),
        ("models/gemini-2.5-flash", "gemini-2.5-flash"),
        ("vertex_ai/gemini-2.5-pro-latest", "gemini-2.5-pro"),
        ("ft:gpt-4o-mini-2024-07-18:acme::abc", "ft:gpt-4o-mini"),
        ("ft:gpt-3.5-turbo-0125:acme:tickets:7p4", "ft:gpt-3.5-turbo"),
    ],
)  # fmt: skip
def test_a_known_model_has_its_price_by_all_its_names(model, listed):
    """With a date or `-latest` behind it, and with a gateway, a host or a region in front of it."""
    assert price_of(model)[:3] == price_of(listed)[:3]
    assert price_of(model).at(300_000)[:2] == price_of(listed).at(300_000)[:2]


@pytest.mark.parametrize(
    "model",
    [
        "", "o", "/", "-latest", "gpt-4.5", "gpt-5.9", "openai/gpt-5.9", "gpt-4o-2", "gpt-4o.1",
        "gpt-4o-2024-13-01", "gpt-4ox", "my-gpt-4o", "gpt-4o-mini-unheard", "azure/our-deployment",
        "ft:gpt-9:acme::abc", "claude-opus-4.55", "anthropic/claude-opus-4.9", "llama-3",
        "gpt-4o" + "-latest" * 40, "x/" * 10_000 + "gpt-4o",
    ],
)  # fmt: skip
def test_every_other_name_is_unknown(model):
    """A model that only begins like a known one, or has a further number, is not taken for it."""
    assert price_of(model) is None
    assert cost(model, Usage(1000, 1000, 2000)) is None


def test_models_that_a_point_tells_apart_have_prices_of_their_own():
    """`gpt-5.5` is no version of GPT-5, nor `claude-opus-4.5` of Opus 4."""
    assert price_of("gpt-5.5").input > price_of("gpt-5").input
    assert price_of("gpt-4.5-preview").input > price_of("gpt-4").input
    assert price_of("claude-opus-4.5").input < price_of("claude-opus-4").input


def test_a_host_in_front_has_its_own_price():
    """Bedrock asks more in a region than for its global endpoint, which costs as at Anthropic."""
    own, everywhere, regional = (
        price_of(name).input
        for name in (
            "claude-sonnet-5-5",
            "bedrock/global.anthropic.claude-sonnet-5-5",
            "bedrock/us.anthropic.claude-sonnet-5-5",
        )
    )
    assert own == everywhere < regional


def test_an_announced_price_counts_from_its_day_on():
    """Until then the present one does."""
    before, after = (
        price_of("gemini-3.8-flash", on=date(year, month, day))
        for year, month, day in ((2026, 12, 31), (2027, 1, 1))
    )
    assert after.input == 2 * before.input


def test_the_tokens_of_a_request_decide_the_price_of_all_of_them():
    """Above a step each token of the request costs the dearer price, and none at or below it."""
    price = Price(2.0, 10.0, 0.5, above=((200_000, Price(4.0, 15.0, 1.0)),))
    below, above = (
        price.cost(Usage(tokens, 0, tokens)) * 1e6 / tokens for tokens in (200_000, 200_001)
    )
    assert (below, above) == (pytest.approx(2.0), pytest.approx(4.0))
    cached = {"cache_read_input_tokens": 300_000}
    assert price.cost(Usage(300_000, 0, 300_000), cached) == pytest.approx(0.3)


def test_the_most_that_a_request_may_cost_is_as_if_a_cache_kept_its_input():
    """What is reserved before a call is never less than what it costs after it."""
    price = Price(2.0, 10.0, 0.5, 2.5, above=((200_000, Price(4.0, 15.0, 1.0, 5.0)),))
    for tokens in (1_000, 200_001):
        usage = Usage(tokens, 100, tokens + 100)
        kept = price.cost(usage, {"cache_write_input_tokens": tokens})
        assert price.most(usage) == pytest.approx(kept)
        assert price.cost(usage) < price.most(usage)


def test_requests_may_have_a_price_of_their_own():
    """Perplexity asks for each search beside the tokens."""
    assert Price(1.0, 1.0, thousand_requests=12.0).cost(Usage(), requests=2) == pytest.approx(0.024)


def test_a_cost_is_tokens_times_price():
    """Input and output are priced apart; tokens of unknown direction count as output."""
    own = {"m": (2.0, 10.0)}
    assert cost("m", Usage(1_000_000, 100_000, 1_100_000), own=own) == pytest.approx(3.0)
    assert cost("m", Usage(total_tokens=100_000), own=own) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "model", ["Own-7B", "own-7b-latest", "ollama/own-7b:latest", "gpt-4o-2024-05-13"]
)
def test_own_prices_win(model):
    """A deployment's own name and its own price are what counts."""
    own = {"gpt-4o": (1.0, 1.0), "own-7b": (1.0, 1.0)}
    assert price_of(model, own=own)[:2] == (1.0, 1.0)


def test_a_price_of_zero_is_known():
    """It says that the model costs nothing."""
    assert cost("my/judge", Usage(9, 9, 18), own={"my/judge": (0.0, 0.0)}) == 0


def test_what_a_cache_had_and_keeps_has_its_own_price():
    """Cached input is priced apart where its price is known, and is dear input elsewhere."""
    usage = Usage(1_000_000, 0, 1_000_000)
    metrics = {"cache_read_input_tokens": 400_000, "cache_write_input_tokens": 100_000}
    assert cost("m", usage, metrics, own={"m": (2, 10)}) == pytest.approx(2.0)
    assert cost("m", usage, metrics, own={"m": (2, 10, 0.5)}) == pytest.approx(1.4)
    assert cost("m", usage, metrics, own={"m": (2, 10, 0.5, 4)}) == pytest.approx(1.6)


def test_more_cached_tokens_than_input_cost_no_less_than_nothing():
    """Numbers that cannot be are bounded by the input, and negative ones count as none."""
    own = {"m": (2.0, 10.0, 0.0)}
    usage = Usage(1_000_000, 0, 1_000_000)
    assert cost("m", usage, {"cache_read_input_tokens": 1e12}, own=own) == 0
    assert cost("m", usage, {"cache_read_input_tokens": -5}, own=own) == pytest.approx(2.0)


def test_what_the_provider_says_wins_over_the_list():
    """A known cost is not estimated."""
    assert cost("gpt-4o", Usage(1, 1, 2, cost_usd=0.5)) == 0.5
