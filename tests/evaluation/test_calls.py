"""What stands between an admitted judgement and its call: breaker and concurrency."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.backoff import AdaptiveLimit, Breaker


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
