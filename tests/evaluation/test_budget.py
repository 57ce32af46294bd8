"""Budgets: never a call, token or cent too many, and nothing kept for ever."""

from __future__ import annotations

import math
import os
import threading
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.books import Reservation
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.limiter import HOLD_SECONDS, BudgetLimiter, MemoryLedger
from llmeval_sdk.model import DAY_SECONDS


NOON = 20_000 * DAY_SECONDS + DAY_SECONDS / 2


class Clock:
    def __init__(self, now=NOON):
        self.now = now

    def __call__(self):
        return self.now


def limiter(clock=None, ledger=None, **limits):
    limits = {"calls_per_minute": None, "usd_per_day": None} | limits
    return BudgetLimiter(Budget(**limits), ledger, clock=clock or Clock())


@pytest.mark.parametrize(
    "wrong",
    [
        {"calls_per_minute": -1},
        {"usd_per_day": math.nan},
        {"usd_per_day": math.inf},
        {"usd_per_day": True},
        {"tokens_per_minute": "many"},
        {"unpriced_tokens_per_minute": -1},
        {"concurrency": 0},
        {"concurrency": 2.5},
        {"judges": {"polite": 5}},
        {"per": "tenant"},
    ],
    ids=str,
)
def test_a_budget_that_cannot_be_meant_raises(wrong):
    """Limits are numbers of at least 0, or None."""
    with pytest.raises(ConfigurationError, match="Budget"):
        Budget(**wrong)


def test_limits_of_judges_do_not_nest():
    """A judge's budget has no judges of its own."""
    with pytest.raises(ConfigurationError, match="without judges"):
        Budget(judges={"polite": Budget(judges={"safety": Budget()})})


def test_calls_come_back_after_a_minute():
    """The limit is exact, and the refusal says when to ask again."""
    clock = Clock()
    keep = limiter(clock, calls_per_minute=3)
    granted = [keep.reserve("polite") for _ in range(3)]
    assert all(isinstance(each, Reservation) for each in granted)
    refused = keep.reserve("polite")
    assert isinstance(refused, Refused)
    assert refused.reason == "over_budget"
    assert "3 calls a minute" in refused.detail
    assert 60 <= refused.retry_after <= 61
    clock.now += refused.retry_after - 0.01
    assert isinstance(keep.reserve("polite"), Refused)
    clock.now += 0.01
    assert isinstance(keep.reserve("polite"), Reservation)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(st.floats(0, 40), st.integers(1, 4)), min_size=10, max_size=60),
    limit=st.integers(1, 12),
)
def test_no_minute_ever_holds_a_call_too_many(steps, limit):
    """Whenever and however many calls are asked for, any 60 seconds hold the limit at most."""
    clock, made = Clock(), deque()
    keep = limiter(clock, calls_per_minute=limit)
    for pause, calls in steps:
        clock.now += pause
        got = keep.reserve("polite", calls=calls)
        if isinstance(got, Reservation):
            made.append((clock.now, calls))
        elif got.retry_after is None:
            assert calls > limit
        else:
            assert 0 < got.retry_after <= 61
        used = sum(count for at, count in made if at > clock.now - 60)
        assert used <= limit


@pytest.mark.parametrize(("rate", "gap"), [(0.5, 120), (0.1, 600)])
def test_less_than_one_call_a_minute_is_one_call_in_longer(rate, gap):
    """Half a call a minute is one in two."""
    clock = Clock()
    keep = limiter(clock, calls_per_minute=rate)
    assert isinstance(keep.reserve("polite"), Reservation)
    clock.now += gap - 2
    assert isinstance(keep.reserve("polite"), Refused)
    clock.now += 3
    assert isinstance(keep.reserve("polite"), Reservation)


def test_zero_allows_nothing():
    """A limit of 0 is a switch, and no wait is promised."""
    no_calls = limiter(calls_per_minute=0).reserve("polite")
    assert no_calls == Refused("over_budget", "all judges: 0 calls a minute are used up", None)
    assert isinstance(limiter(calls_per_minute=0).reserve("polite"), Refused)
    assert isinstance(limiter(tokens_per_minute=0).reserve("polite", tokens=1), Refused)
    assert isinstance(limiter(usd_per_day=0).reserve("polite", usd=0.01), Refused)
    assert isinstance(limiter(usd_per_day=0).reserve("polite", usd=None), Refused)
    assert isinstance(limiter(usd_per_day=0).reserve("polite", usd=0.0), Reservation)


def test_none_lifts_a_limit():
    """Without limits everything is granted."""
    keep = limiter()
    assert all(
        isinstance(keep.reserve("p", tokens=10**9, usd=1e6), Reservation) for _ in range(200)
    )


def test_tokens_are_counted_and_corrected():
    """What was reserved too much is free again at once."""
    keep = limiter(tokens_per_minute=1000)
    first = keep.reserve("polite", tokens=900)
    assert isinstance(keep.reserve("polite", tokens=200), Refused)
    keep.settle(first, tokens=300)
    assert isinstance(keep.reserve("polite", tokens=700), Reservation)
    assert keep.used().tokens == 1000


def test_a_want_larger_than_the_limit_is_told_never_to_come_back():
    """Waiting does not help then, so no time is promised."""
    assert limiter(tokens_per_minute=100).reserve("polite", tokens=101).retry_after is None
    assert limiter(usd_per_day=1).reserve("polite", usd=1.01).retry_after is None
    assert limiter(calls_per_minute=2).reserve("polite", calls=3).retry_after is None


def test_unused_calls_are_given_back():
    """A judgement reserves its worst case and settles with what it called."""
    keep = limiter(calls_per_minute=10)
    keep.settle(keep.reserve("polite", calls=10), calls=4)
    assert isinstance(keep.reserve("polite", calls=6), Reservation)
    assert isinstance(keep.reserve("polite"), Refused)


def test_a_released_reservation_leaves_nothing():
    """A call that was never made costs nothing."""
    keep = limiter(calls_per_minute=1, tokens_per_minute=10, usd_per_day=1)
    keep.release(keep.reserve("polite", tokens=10, usd=1.0))
    assert isinstance(keep.reserve("polite", tokens=10, usd=1.0), Reservation)


def test_money_is_held_until_it_is_settled():
    """Reserved and spent money count alike; settling replaces one by the other."""
    keep = limiter(usd_per_day=1.0)
    first = keep.reserve("polite", usd=0.9)
    refused = keep.reserve("polite", usd=0.2)
    assert isinstance(refused, Refused)
    assert "0.9000 reserved" in refused.detail
    keep.settle(first, usd=0.5)
    assert isinstance(keep.reserve("polite", usd=0.5), Reservation)
    assert keep.used().usd == 0.5
    assert keep.used().reserved_usd == 0.5


def test_ten_dimes_are_a_dollar():
    """Rounding of binary fractions never costs a call."""
    keep = limiter(usd_per_day=1.0)
    for _ in range(10):
        keep.settle(keep.reserve("polite", usd=0.1))
    assert isinstance(keep.reserve("polite", usd=0.001), Refused)


def test_settling_twice_counts_once():
    """A second settlement of the same reservation is ignored."""
    keep = limiter(usd_per_day=1.0)
    first = keep.reserve("polite", usd=0.4)
    keep.settle(first)
    keep.settle(first)
    assert keep.used().usd == 0.4


def test_the_day_is_utc_and_a_call_belongs_to_the_day_it_was_made():
    """At midnight the money is new, and a late bill goes to yesterday."""
    clock = Clock(NOON + DAY_SECONDS / 2 - 5)
    keep = limiter(clock, usd_per_day=1.0)
    late = keep.reserve("polite", usd=1.0)
    assert keep.reserve("polite", usd=0.1).retry_after == pytest.approx(5)
    clock.now += 5
    today = keep.reserve("polite", usd=1.0)
    assert isinstance(today, Reservation)
    keep.settle(today)
    keep.settle(late)
    assert keep.used().usd == 1.0


def test_a_reservation_that_nobody_settles_runs_out():
    """A process that died in between keeps neither calls nor money for ever."""
    clock = Clock()
    keep = limiter(clock, calls_per_minute=1, usd_per_day=1.0)
    keep.reserve("polite", usd=1.0)
    clock.now += 61
    assert "USD" in keep.reserve("polite", usd=1.0).detail
    clock.now += HOLD_SECONDS
    assert isinstance(keep.reserve("polite", usd=1.0), Reservation)


def test_a_bill_that_comes_after_its_hold_ran_out_still_counts():
    """Late is not free."""
    clock = Clock()
    keep = limiter(clock, usd_per_day=1.0)
    late = keep.reserve("polite", usd=1.0)
    clock.now += HOLD_SECONDS + 1
    keep.settle(late, usd=0.8)
    assert keep.used().usd == 0.8
    assert isinstance(keep.reserve("polite", usd=0.3), Refused)


def test_a_bill_at_the_moment_at_which_its_hold_runs_out_counts():
    """The books have let go of the money by then, and the bill brings it back."""
    clock = Clock()
    keep = limiter(clock, usd_per_day=1.0)
    late = keep.reserve("polite", usd=1.0)
    clock.now += HOLD_SECONDS
    keep.release(keep.reserve("polite", usd=0.1))
    keep.settle(late, usd=0.8)
    assert keep.used().usd == 0.8


def test_a_bill_counts_in_books_that_were_emptied_meanwhile():
    """Whoever deletes the ledger begins anew, and a late bill is part of that."""
    clock, ledger = Clock(), MemoryLedger()
    keep = limiter(clock, ledger, usd_per_day=1.0)
    late = keep.reserve("polite", usd=1.0)
    ledger.update(lambda text: ("", None))
    clock.now += HOLD_SECONDS + 1
    keep.settle(late, usd=0.8)
    assert keep.used().usd == 0.8


def test_a_refusal_says_when_enough_calls_will_have_left_the_minute():
    """Not before as many are free as are wanted, and not later."""
    clock = Clock()
    keep = limiter(clock, calls_per_minute=10)
    for calls in (3, 3, 4):
        assert isinstance(keep.reserve("polite", calls=calls), Reservation)
        clock.now += 10
    refused = keep.reserve("polite", calls=5)
    assert refused.retry_after == 41  # the second three were made 20 s ago
    clock.now += refused.retry_after
    assert isinstance(keep.reserve("polite", calls=5), Reservation)


def test_all_the_money_of_a_day_may_be_wanted_tomorrow():
    """It does not fit into what is left, and does at midnight."""
    clock = Clock(NOON)
    keep = limiter(clock, usd_per_day=1.0)
    keep.settle(keep.reserve("polite", usd=0.5))
    refused = keep.reserve("polite", usd=1.0)
    assert refused.retry_after == DAY_SECONDS / 2
    clock.now += refused.retry_after
    assert isinstance(keep.reserve("polite", usd=1.0), Reservation)


def test_what_is_free_is_granted_when_the_money_is_gone():
    """A bill may exceed what was reserved; models that cost nothing go on."""
    keep = limiter(usd_per_day=1.0)
    keep.settle(keep.reserve("polite", usd=1.0), usd=1.2)
    assert isinstance(keep.reserve("polite", usd=0.01), Refused)
    assert isinstance(keep.reserve("polite", usd=0.0), Reservation)


def test_a_part_of_a_call_above_one_a_minute_is_none():
    """A call and a half in a minute is one, at any moment of it."""
    clock = Clock()
    keep = limiter(clock, calls_per_minute=1.5)
    assert isinstance(keep.reserve("polite"), Reservation)
    clock.now += 50
    assert isinstance(keep.reserve("polite"), Refused)
    clock.now += 11
    assert isinstance(keep.reserve("polite"), Reservation)


def test_a_judge_has_its_own_limits_inside_the_whole():
    """One judge cannot use up the budget of the others, nor all of them more than the whole."""
    keep = limiter(calls_per_minute=5, judges={"polite": Budget(calls_per_minute=2)})
    assert [type(keep.reserve("polite")) for _ in range(3)] == [Reservation, Reservation, Refused]
    assert "polite: 2 calls" in keep.reserve("polite").detail
    assert [type(keep.reserve("safety")) for _ in range(4)] == [Reservation] * 3 + [Refused]
    assert "all judges: 5 calls" in keep.reserve("safety").detail
    assert keep.used("polite").calls == 2
    assert keep.used().calls == 5


def test_a_refusal_in_one_account_takes_nothing_from_another():
    """Nothing is written before every limit agreed."""
    keep = limiter(calls_per_minute=5, judges={"polite": Budget(calls_per_minute=0)})
    for _ in range(9):
        keep.reserve("polite")
    assert keep.used().calls == 0


def test_a_clock_that_was_set_back_does_not_close_the_budget():
    """Use that lies in the future is forgotten; the money of a wrong day too, but not for free."""
    clock = Clock(NOON + 3 * DAY_SECONDS)
    keep = limiter(clock, calls_per_minute=1, usd_per_day=1.0)
    keep.settle(keep.reserve("polite", usd=1.0))
    clock.now = NOON
    keep.settle(keep.reserve("polite", usd=1.0))
    clock.now += 61
    assert isinstance(keep.reserve("polite", usd=0.1), Refused)


def test_a_ledger_that_fails_refuses():
    """Without books there is no spending, and no exception."""

    class Broken:
        def update(self, change):
            raise OSError("disk on fire")

    refused = limiter(ledger=Broken()).reserve("polite")
    assert refused == Refused("no_ledger", "the ledger cannot be used: OSError: disk on fire", None)


def test_unreadable_books_refuse():
    """Books that were damaged are not taken for empty ones."""
    ledger = MemoryLedger()
    ledger.update(lambda text: ('{"accounts": 3}', None))
    assert "ValueError" in limiter(ledger=ledger).reserve("polite").detail


def test_the_books_stay_small():
    """Days of traffic leave a minute of it."""
    clock, ledger = Clock(), MemoryLedger()
    keep = limiter(clock, ledger, calls_per_minute=600, usd_per_day=100)
    for _ in range(3000):
        clock.now += 1.5
        keep.settle(keep.reserve("polite", tokens=1000, usd=0.0001))
    assert len(ledger._text) < 3000


def test_eight_threads_get_exactly_the_limit():
    """Threads that hammer one keeper are granted neither a call too many nor one too few."""
    keep = limiter(calls_per_minute=100, usd_per_day=1.0)
    granted = []

    def hammer():
        for _ in range(50):
            got = keep.reserve("polite", usd=0.001)
            if isinstance(got, Reservation):
                granted.append(got)
                keep.settle(got, usd=0.002)

    threads = [threading.Thread(target=hammer) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 100
    assert len({each.id for each in granted}) == 100
    assert keep.used().usd == pytest.approx(0.2)


class TestUnknownPrice:
    """Where no price is known, tokens a minute stand in for the dollars a day."""

    def test_a_default_of_tokens_a_minute_holds(self):
        """The refusal says what is missing, and when asking again may succeed."""
        clock = Clock()
        keep = limiter(clock, usd_per_day=5.0)
        granted = [keep.reserve("polite", tokens=50_000) for _ in range(5)]
        assert [type(each) for each in granted] == [Reservation] * 4 + [Refused]
        assert "price is unknown: set LLMEVAL_PRICES" in granted[-1].detail
        clock.now += granted[-1].retry_after
        assert isinstance(keep.reserve("polite", tokens=50_000), Reservation)

    def test_a_known_price_has_the_limit_in_dollars_instead(self):
        """Free and priced models are not held back."""
        keep = limiter(usd_per_day=5.0)
        for _ in range(20):
            assert isinstance(keep.reserve("polite", tokens=50_000, usd=0.0), Reservation)

    def test_a_judgement_larger_than_the_minute_takes_all_of_it(self):
        """It is not refused for ever, and nothing else runs beside it."""
        keep = limiter(usd_per_day=5.0)
        assert isinstance(keep.reserve("polite", tokens=900_000), Reservation)
        assert isinstance(keep.reserve("polite", tokens=1), Refused)

    def test_a_limit_of_ones_own_replaces_the_default(self):
        """More, less, or none."""
        assert isinstance(
            limiter(usd_per_day=5.0, tokens_per_minute=10**9).reserve("p", tokens=10**8),
            Reservation,
        )
        lifted = limiter(usd_per_day=5.0, unpriced_tokens_per_minute=None)
        lifted.reserve("p", tokens=10**9)
        assert isinstance(lifted.reserve("p", tokens=10**9), Reservation)
        none = limiter(usd_per_day=5.0, unpriced_tokens_per_minute=0)
        assert isinstance(none.reserve("p", tokens=1), Refused)

    def test_who_lifts_the_limit_in_dollars_lifts_its_stand_in(self):
        """No money limit, nothing to stand in for."""
        keep = limiter(usd_per_day=None)
        keep.reserve("p", tokens=10**9)
        assert isinstance(keep.reserve("p", tokens=10**9), Reservation)


class CountingLedger(MemoryLedger):
    """Counts its transactions, and fails while it is told to."""

    __slots__ = ("changes", "fails")

    def __init__(self):
        super().__init__()
        self.changes, self.fails = 0, False

    def update(self, change, /):
        if self.fails:
            raise OSError("the disk is full")
        self.changes += 1
        return super().update(change)


def test_what_is_settled_later_shares_the_transaction_of_the_next_reservation():
    """Until then all that was reserved counts, so that the total is never exceeded."""
    ledger = CountingLedger()
    other = limiter(ledger=ledger, usd_per_day=1.0)
    own = limiter(ledger=ledger, usd_per_day=1.0)
    own.settle(own.reserve("polite", usd=0.6), usd=0.1, later=True)
    assert other.used().reserved_usd == 0.6
    before = ledger.changes
    assert isinstance(own.reserve("polite", usd=0.6), Reservation)
    assert ledger.changes == before + 1
    assert (other.used().usd, other.used().reserved_usd) == (0.1, 0.6)


def test_a_refusal_writes_what_was_settled_as_well():
    """A budget that is used up does not stay so for want of another reservation."""
    ledger = CountingLedger()
    own, other = (limiter(ledger=ledger, usd_per_day=1.0) for _ in range(2))
    own.settle(own.reserve("polite", usd=0.9), usd=0.5, later=True)
    assert isinstance(own.reserve("polite", usd=0.9), Refused)
    assert (other.used().usd, other.used().reserved_usd) == (0.5, 0.0)


def test_what_could_not_be_written_is_written_once_the_ledger_works_again():
    """In the order in which it was settled, and each once."""
    ledger = CountingLedger()
    own = limiter(ledger=ledger, usd_per_day=1.0)
    for usd in (0.1, 0.2):
        own.settle(own.reserve("polite", usd=0.3), usd=usd, later=True)
    ledger.fails = True
    with pytest.raises(OSError, match="disk is full"):
        own.write()
    own.close()
    ledger.fails = False
    own.write()
    own.write()
    assert own.used().usd == pytest.approx(0.3)
    assert own.used().reserved_usd == 0.0


def test_eight_threads_that_settle_later_book_every_cent():
    """Nothing settled by one thread and written by another is lost, or counted twice."""
    own = limiter(usd_per_day=10.0)

    def spend():
        for _ in range(50):
            own.settle(own.reserve("polite", usd=0.02), usd=0.01, later=True)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert own.used().usd == pytest.approx(4.0)
    assert own.used().reserved_usd == 0.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_leaves_what_was_settled_to_its_parent():
    """Ten settlements that wait are booked once, however late the children write."""
    clock = Clock()
    own = limiter(clock, usd_per_day=100.0)
    granted = [own.reserve("polite", usd=0.05) for _ in range(10)]
    for one in granted:
        own.settle(one, usd=0.05, later=True)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        clock.now += HOLD_SECONDS + 1
        own.write()
        os.write(writing, str(own.used().usd).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert float(os.read(reading, 100)) == 0.0
    own.write()
    assert own.used().usd == pytest.approx(0.5)


@pytest.mark.parametrize(("frozen", "left"), [(30, 550), (61, 600), (3 * DAY_SECONDS, 600)])
def test_after_a_freeze_a_minute_holds_as_many_calls_as_ever(frozen, left):
    """What was reserved before the freeze never comes on top."""
    clock = Clock()
    keep = limiter(clock, calls_per_minute=600)
    for _ in range(50):
        assert isinstance(keep.reserve("polite"), Reservation)
    assert keep.used().calls == 50
    clock.now += frozen
    granted = [keep.reserve("polite") for _ in range(700)]
    assert sum(isinstance(one, Reservation) for one in granted) == left
    assert keep.used().calls == 600


def test_a_call_that_froze_beyond_its_hold_is_paid_on_the_day_it_was_made():
    """The bill comes with the thaw: the same day has it, and the next one begins at nothing."""
    clock = Clock()
    keep = limiter(clock, usd_per_day=1.0)
    calls = [keep.reserve("polite", usd=0.3) for _ in range(2)]
    clock.now += HOLD_SECONDS + 60
    keep.settle(calls[0], usd=0.2)
    assert keep.used().usd == pytest.approx(0.2)
    clock.now += DAY_SECONDS
    keep.settle(calls[1], usd=0.2)
    assert keep.used().usd == 0.0
