"""The price list that comes along, beside genai-prices, from which it is made.

These run in the suite `prices`, whose environment has genai-prices.
"""

import importlib.util
from datetime import datetime, time, timedelta, timezone
from pathlib import Path

import pytest

from llmeval_sdk.judges.models.prices import price_list, price_of
from llmeval_sdk.model import Usage


genai_prices = pytest.importorskip("genai_prices")
ROOT = Path(__file__).resolve().parents[3]
VENDORS = 10
TOKENS = (1_000, 250_000)
METRICS = {
    "cache_read_tokens": "cache_read_input_tokens",
    "cache_write_tokens": "cache_write_input_tokens",
    "cache_write_1h_tokens": "cache_write_1h_input_tokens",
    "input_audio_tokens": "audio_input_tokens",
    "output_audio_tokens": "audio_output_tokens",
    "cache_audio_read_tokens": "audio_cache_read_input_tokens",
}
"""What we call the kinds of tokens that genai-prices has."""
PARTS_OF_CACHED = ("cache_write_1h_tokens", "cache_audio_read_tokens")


@pytest.fixture(scope="module")
def generator():
    """The command that makes the list."""
    spec = importlib.util.spec_from_file_location("price_generator", ROOT / ".ci" / "prices.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def providers():
    """All vendors and hosts, by their names."""
    from genai_prices.data import providers

    return {provider.id: provider for provider in providers}


def chat_models(provider):
    """Return the models of a provider whose input and output tokens have prices."""
    now = datetime.now(timezone.utc)
    prices = ((model, model.get_prices(now)) for model in provider.models)
    return [
        model
        for model, price in prices
        if price.input_mtok is not None and price.output_mtok is not None
    ]


def dearest(provider, model, day, **usage):
    """Return what genai-prices asks for a usage, at the dearest time of a day."""
    used = genai_prices.Usage(**usage)
    morning = datetime.combine(day, time(0, 15), timezone.utc)
    times = [morning + timedelta(minutes=30 * count) for count in range(48)]
    of_each_price = {id(model.get_prices(each)): each for each in times}.values()
    costs = [
        model.calc_price(used, provider, genai_request_timestamp=each) for each in of_each_price
    ]
    return float(max(each.total_price for each in costs))


def compared(provider, day, *, prefix="", further=False):
    """Yield for each model and number of tokens its name, what we ask, and what genai-prices asks."""
    for model in chat_models(provider):
        for tokens in TOKENS:
            usage = {"input_tokens": tokens, "output_tokens": tokens}
            usage |= special_kinds(model, tokens) if further else {}
            metrics = {METRICS[kind]: usage[kind] for kind in METRICS.keys() & usage}
            price = price_of(f"{prefix}{model.id}", on=day)
            ours = price and price.cost(Usage(tokens, tokens, 2 * tokens), metrics)
            yield f"{prefix}{model.id}", tokens, ours, dearest(provider, model, day, **usage)


def special_kinds(model, tokens):
    """Return tokens of each kind that has a price of its own, as genai-prices names them."""
    price = model.get_prices(datetime.now(timezone.utc))
    kinds = {kind for kind in METRICS if getattr(price, f"{kind.removesuffix('_tokens')}_mtok")}
    if "input_audio_tokens" not in kinds:
        kinds.discard("cache_audio_read_tokens")
    return {kind: tokens // (20 if kind in PARTS_OF_CACHED else 5) for kind in kinds}


def differing(rows):
    """Return how many there are, and those that differ."""
    rows = list(rows)
    assert rows
    return len(rows), [row for row in rows if row[2] != pytest.approx(row[3], rel=1e-9)]


def test_the_list_is_what_the_command_makes_of_the_release(generator):
    """Nobody has changed it by hand, and nobody has forgotten to make it anew."""
    made = generator.text(generator.table(price_list().as_of))
    assert made == (ROOT / "llmeval_sdk" / "judges" / "models" / "prices.json").read_text("utf-8")


def test_each_model_of_the_ten_largest_vendors_costs_what_genai_prices_says(
    providers, generator, capsys
):
    """By its name alone, below and above the steps of prices, also when announced ones begin."""
    makers = [providers[name] for name in generator.MAKERS]
    largest = sorted(makers, key=lambda provider: -len(chat_models(provider)))[:VENDORS]
    with capsys.disabled():
        for provider in largest:
            for days in (0, 60):
                day = price_list().as_of + timedelta(days=days)
                count, differ = differing(compared(provider, day))
                print(f"\n{provider.id} on {day}: {count} compared, {len(differ)} differ", end="")
                assert not differ


def test_cached_and_audio_tokens_cost_what_genai_prices_says(providers, generator, capsys):
    """Each kind that has a price of its own, below and above the steps of prices."""
    day = price_list().as_of
    rows = [
        row for name in generator.MAKERS for row in compared(providers[name], day, further=True)
    ]
    count, differ = differing(rows)
    with capsys.disabled():
        print(f"\ncached and audio tokens: {count} compared, {len(differ)} differ", end="")
    assert not differ


def test_each_host_has_its_own_price_behind_its_name(providers, generator, capsys):
    """A gateway's prefix such as ``openrouter/`` says whose price counts."""
    day = price_list().as_of
    hosts = [provider for name, provider in providers.items() if name not in generator.MAKERS]
    rows = [row for host in hosts for row in compared(host, day, prefix=f"{host.id}/")]
    count, differ = differing(rows)
    with capsys.disabled():
        print(f"\n{len(hosts)} hosts by prefix: {count} compared, {len(differ)} differ", end="")
    assert not differ


def test_a_name_that_may_be_the_makers_or_a_gateways_has_the_dearer_price(providers, generator):
    """``deepseek/deepseek-chat`` is asked of DeepSeek as well as of OpenRouter."""
    day = price_list().as_of
    for name in generator.MAKERS:
        listed = {model.id for model in providers[name].models}
        rows = compared(providers[name], day, prefix=f"{name}/")
        cheaper = [row for row in rows if row[0] not in listed and row[2] < row[3] * (1 - 1e-9)]
        assert not cheaper
