"""What stands between an admitted judgement and its call: breaker, concurrency, prices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.backoff import AdaptiveLimit, Breaker
from llmeval_sdk.judges.models.prices import cost, price_of
from llmeval_sdk.model import Usage


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def trip(breaker, times=5):
    for _ in range(times):
        breaker.failed(breaker.admit())


class TestBreaker:
    def test_it_opens_after_consecutive_failures(self):
        """The fifth failure in a row stops the calls, and the refusal says for how long."""
        breaker = Breaker("gpt", clock=Clock())
        trip(breaker, 4)
        assert breaker.state == "closed"
        trip(breaker, 1)
        refused = breaker.admit()
        assert refused == Refused("circuit_open", "gpt failed 5 times in a row", 30.0)

    def test_a_success_in_between_starts_the_count_again(self):
        """Only failures in a row count."""
        breaker = Breaker(clock=Clock())
        for _ in range(10):
            trip(breaker, 4)
            breaker.succeeded(breaker.admit())
        assert breaker.state == "closed"

    def test_one_probe_decides_after_the_cool_down(self):
        """While the probe runs nobody else may call; its success closes the breaker."""
        clock = Clock()
        breaker = Breaker(clock=clock)
        trip(breaker)
        clock.now += 30
        assert breaker.state == "half_open"
        probe = breaker.admit()
        assert isinstance(breaker.admit(), Refused)
        breaker.succeeded(probe)
        assert breaker.state == "closed"
        assert isinstance(breaker.admit(), int)

    def test_a_failed_probe_waits_again(self):
        """The next probe comes a whole cool-down later."""
        clock = Clock()
        breaker = Breaker(clock=clock)
        trip(breaker)
        clock.now += 30
        probe = breaker.admit()
        clock.now += 10
        breaker.failed(probe)
        clock.now += 29
        assert isinstance(breaker.admit(), Refused)
        clock.now += 1
        assert isinstance(breaker.admit(), int)

    def test_stragglers_decide_nothing(self):
        """Calls from before the breaker opened neither close it nor count against its probe."""
        clock = Clock()
        breaker = Breaker(clock=clock)
        straggler = breaker.admit()
        trip(breaker)
        breaker.succeeded(straggler)
        assert breaker.state == "open"
        clock.now += 30
        probe = breaker.admit()
        breaker.failed(straggler)
        breaker.succeeded(probe)
        assert breaker.state == "closed"

    def test_a_probe_that_never_reports_gives_way(self):
        """A hung or cancelled probe does not keep the breaker open for ever."""
        clock = Clock()
        breaker = Breaker(clock=clock)
        trip(breaker)
        clock.now += 30
        lost = breaker.admit()
        clock.now += 30
        probe = breaker.admit()
        assert isinstance(probe, int)
        breaker.failed(lost)
        breaker.succeeded(probe)
        assert breaker.state == "closed"

    def test_a_call_that_was_not_made_tells_nothing(self):
        """A probe that was refused elsewhere leaves the breaker open, and the next one may try."""
        clock = Clock()
        breaker = Breaker(clock=clock)
        trip(breaker, 4)
        breaker.unused(breaker.admit())
        trip(breaker, 1)
        assert breaker.state == "open"
        clock.now += 30
        breaker.unused(breaker.admit())
        assert breaker.state == "half_open"
        assert isinstance(breaker.admit(), int)
        assert isinstance(breaker.admit(), Refused)


class TestAdaptiveLimit:
    def test_no_more_run_than_the_limit(self):
        """The ninth of eight waits."""
        limit = AdaptiveLimit(8)
        assert [limit.enter() is None for _ in range(9)] == [False] * 8 + [True]

    def test_a_burst_of_rate_limits_halves_once(self):
        """Calls that were already running met the same wall."""
        limit = AdaptiveLimit(8)
        for ticket in [limit.enter() for _ in range(8)]:
            limit.leave(ticket, rate_limited=True)
        assert limit.limit == 4

    def test_it_never_falls_below_one(self):
        """There is always a way out."""
        limit = AdaptiveLimit(8)
        for _ in range(10):
            limit.leave(limit.enter(), rate_limited=True)
        assert limit.limit == 1
        assert limit.enter() is not None

    def test_it_grows_by_one_a_round_up_to_the_maximum(self):
        """As many successes as may run at a time are a round."""
        limit = AdaptiveLimit(4)
        limit.leave(limit.enter(), rate_limited=True)
        seen = []
        for _ in range(12):
            limit.leave(limit.enter(), succeeded=True)
            seen.append(limit.limit)
        assert seen == [2, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4]

    @given(st.lists(st.sampled_from(["enter", "ok", "429", "failed"]), max_size=200))
    def test_it_stays_within_its_bounds(self, moves):
        """Whatever happens, the limit is in 1..maximum and what runs is what entered."""
        limit, running = AdaptiveLimit(6), []
        for move in moves:
            if move == "enter":
                ticket = limit.enter()
                assert (ticket is None) == (len(running) >= limit.limit)
                running += [ticket] if ticket is not None else []
            elif running:
                limit.leave(running.pop(0), succeeded=move == "ok", rate_limited=move == "429")
            assert 1 <= limit.limit <= 6
            assert limit.in_flight == len(running)


class TestPrices:
    @pytest.mark.parametrize(
        ("model", "listed"),
        [
            ("gpt-4o-mini", "gpt-4o-mini"),
            ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
            ("gpt-4o-2024-08-06", "gpt-4o"),
            ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),
            ("openai/gpt-4.1-nano", "gpt-4.1-nano"),
            ("claude-3-5-sonnet@20240620", "claude-3-5-sonnet"),
            ("us.anthropic.claude-3-5-sonnet-20241022-v2:0", "claude-3-5-sonnet"),
            ("anthropic/claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
            ("models/gemini-2.5-flash-preview-05-20", "gemini-2.5-flash"),
            ("mistral-large-latest", "mistral-large"),
        ],
    )
    def test_versions_of_a_known_model_have_its_price(self, model, listed):
        """Dates, versions and providers around a name are ignored; the longest known name wins."""
        assert price_of(model) == price_of(listed) is not None

    @pytest.mark.parametrize(
        "model", ["", "llama-3", "gpt-4o-audio-preview", "gpt-4ox", "o", "my-gpt-4o"]
    )
    def test_an_unknown_model_has_no_price(self, model):
        """A model that only begins like a known one is not taken for it."""
        assert price_of(model) is None
        assert cost(model, Usage(1000, 1000, 2000)) is None

    def test_a_cost_is_tokens_times_price(self):
        """Input and output are priced apart; tokens of unknown direction count as output."""
        own = {"m": (2.0, 10.0)}
        assert cost("m", Usage(1_000_000, 100_000, 1_100_000), own=own) == pytest.approx(3.0)
        assert cost("m", Usage(total_tokens=100_000), own=own) == pytest.approx(1.0)

    def test_own_prices_win(self):
        """A deployment's own name and its own price are what counts."""
        own = {"gpt-4o": (1.0, 1.0), "my/judge": (0.0, 0.0)}
        assert price_of("gpt-4o-2024-05-13", own=own)[:2] == (1.0, 1.0)
        assert price_of("my/judge", own=own)[:2] == (0.0, 0.0)

    def test_what_a_cache_had_and_keeps_has_its_own_price(self):
        """Cached input is priced apart where its price is known, and is dear input elsewhere."""
        usage = Usage(1_000_000, 0, 1_000_000)
        metrics = {"cache_read_input_tokens": 400_000, "cache_write_input_tokens": 100_000}
        assert cost("m", usage, metrics, own={"m": (2, 10)}) == pytest.approx(2.0)
        assert cost("m", usage, metrics, own={"m": (2, 10, 0.5)}) == pytest.approx(1.4)
        assert cost("m", usage, metrics, own={"m": (2, 10, 0.5, 4)}) == pytest.approx(1.6)

    def test_more_cached_tokens_than_input_cost_no_less_than_nothing(self):
        """Numbers that cannot be are bounded by the input, and negative ones count as none."""
        own = {"m": (2.0, 10.0, 0.0)}
        usage = Usage(1_000_000, 0, 1_000_000)
        assert cost("m", usage, {"cache_read_input_tokens": 1e12}, own=own) == 0
        assert cost("m", usage, {"cache_read_input_tokens": -5}, own=own) == pytest.approx(2.0)

    def test_what_the_provider_says_wins_over_the_list(self):
        """A known cost is not estimated."""
        assert cost("gpt-4o", Usage(1, 1, 2, cost_usd=0.5)) == 0.5
