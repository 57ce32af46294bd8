"""Budgeted escalation: the spend holds, the riskiest are chosen, estimates stay unbiased."""

from __future__ import annotations

import math
import random
import statistics
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmeval_sdk.evaluation.escalation import Escalation
from llmeval_sdk.evaluation.sampling import Quota, RecentScores, escalation_draw
from llmeval_sdk.model import Evaluation
from llmeval_sdk.statistics.allocation import Allocation, default_control


LENGTH = 10_000


def _streams():
    rng = random.Random(7)
    noise = [rng.gauss(0, 1) for _ in range(LENGTH)]
    half = LENGTH // 2
    return {
        "stationary": noise,
        "drifting up": [x + i / 1000 for i, x in enumerate(noise)],
        "drifting down": [x - i / 1000 for i, x in enumerate(noise)],
        "stepping up": [x + 10 * (i > half) for i, x in enumerate(noise)],
        "stepping down": [x - 10 * (i > half) for i, x in enumerate(noise)],
        "all equal": [0.5] * LENGTH,
        "nine in ten zero": [max(0.0, rng.random() - 0.9) for _ in noise],
        "three values": [rng.choice((0.0, 0.5, 1.0)) for _ in noise],
        "sorted up": sorted(noise),
        "sorted down": sorted(noise, reverse=True),
        "alternating": [float(i % 2) for i in range(LENGTH)],
        "periodic": [math.sin(i / 80) + x / 3 for i, x in enumerate(noise)],
        "in blocks": [x + 5 * (i // 50 % 2) for i, x in enumerate(noise)],
    }


STREAMS = _streams()


@pytest.mark.parametrize("control", [0.02, default_control(0.2)])
@pytest.mark.parametrize("scores", STREAMS.values(), ids=STREAMS)
def test_the_spend_holds_whatever_the_stream_does(scores, control):
    """19 to 21 % of a share of 20 % are judged, on calm, drifting, tied and adversarial streams."""
    quota = Quota(0.2, control)
    spent = sum(quota.decide(score, f"t{i}").run for i, score in enumerate(scores))
    assert 0.19 <= spent / len(scores) <= 0.21


def test_the_spend_holds_over_many_short_processes():
    """Forty processes one after the other, each warmed by the last, and ten at once in bursts."""
    scores = STREAMS["in blocks"]
    spent = 0
    for first in range(0, LENGTH, 230):
        quota = Quota(0.2, default_control(0.2))
        quota.warm(scores[max(0, first - 500) : first])
        spent += sum(
            quota.decide(s, f"s{first + i}").run for i, s in enumerate(scores[first:][:230])
        )
    assert 0.19 <= spent / LENGTH <= 0.21
    many = [Quota(0.2, default_control(0.2)) for _ in range(10)]
    spent = sum(many[i // 30 % 10].decide(s, f"p{i}").run for i, s in enumerate(scores))
    assert 0.19 <= spent / LENGTH <= 0.21


@pytest.mark.parametrize(
    ("budget", "control"), [(0.05, 0.01), (0.5, 0.02), (0.2, 0.0), (0.2, 0.2), (1, 0.02)]
)
def test_any_budget_holds(budget, control):
    """Small and large budgets, without and with nothing but a control sample."""
    quota = Quota(budget, control)
    spent = sum(quota.decide(score, f"t{i}").run for i, score in enumerate(STREAMS["stationary"]))
    assert abs(spent / LENGTH - budget) < 0.016


def test_the_riskiest_are_chosen():
    """Of the records in the true top 20 %, at least 85 % are judged; of the rest, hardly any."""
    quota = Quota(0.2, 0.02)
    scores = STREAMS["stationary"]
    cut = sorted(scores)[int(LENGTH * 0.8)]
    runs = [quota.decide(score, f"t{i}").run for i, score in enumerate(scores)]
    top = [run for run, score in zip(runs, scores, strict=True) if score > cut]
    rest = [run for run, score in zip(runs, scores, strict=True) if score <= cut]
    assert sum(top) / len(top) > 0.85
    assert sum(rest) / len(rest) < 0.04


def test_admission_is_random_until_enough_scores_are_known():
    """The first 20 records are judged at the budget rate, whatever they score."""
    probabilities = []
    for stream in range(50):
        quota = Quota(0.2, 0.02)
        decisions = [quota.decide(float(i), f"{stream}-{i}") for i in range(21)]
        probabilities += [decision.probability for decision in decisions[:20]]
        assert decisions[20].probability == 1.0
    assert set(probabilities) == {0.2}


def test_past_scores_end_the_warm_up():
    """A quota that was given its history ranks the first record already."""
    quota = Quota(0.2, 0.02)
    quota.warm([i / 100 for i in range(100)] + [math.nan])
    assert quota.decide(0.99, "t").probability == 1.0
    assert quota.decide(0.01, "t").probability == 0.02


@pytest.mark.parametrize("risk", [None, math.nan, math.inf])
def test_a_record_without_a_score_is_judged_at_the_budget_rate(risk):
    """Not knowing the risk degrades to random sampling, with its honest chance."""
    quota = Quota(0.2, 0.02)
    decisions = [quota.decide(risk, f"t{i}") for i in range(3000)]
    assert {decision.probability for decision in decisions} == {0.2}
    assert abs(sum(decision.run for decision in decisions) / 3000 - 0.2) < 0.04


def test_a_record_of_the_control_sample_says_so():
    """Whoever reads why a safe record was judged learns that it was for the average."""
    decisions = []
    for key in map(str, range(200)):
        quota = Quota(0.2, 0.1)
        quota.warm([i / 100 for i in range(100)])
        decisions.append(quota.decide(0.01, key))
    assert {decision.run for decision in decisions} == {True, False}
    below = "0.01 is below the top 11% of recent scores"
    assert {each.why for each in decisions if not each.run} == {below}
    assert {each.why for each in decisions if each.run} == {f"{below}, control sample"}
    assert quota.decide(None, "t").why == "unknown: random 0.2"


@pytest.mark.parametrize("risk", [None, 0.5])
def test_a_draw_that_equals_the_chance_is_not_admitted(risk):
    """Draws begin at 0 and end below 1: to be admitted one has to be below the chance."""
    quota = Quota(escalation_draw("t"), 0.0)
    assert not quota.decide(risk, "t").run
    assert quota.decide(risk, "t").probability == escalation_draw("t")


def test_equal_scores_are_chosen_by_lot():
    """Within a tie each record has the same small chance, and says so."""
    quota = Quota(0.2, 0.02)
    quota.warm([0.5] * 400)
    decision = quota.decide(0.5, "t")
    assert decision.probability == pytest.approx(0.2, abs=0.002)
    assert "edge" in decision.why


def test_the_same_past_and_key_decide_the_same():
    """A replay of a stream repeats every decision."""
    first, again = Quota(0.2, 0.02), Quota(0.2, 0.02)
    for i, score in enumerate(STREAMS["periodic"][:800]):
        assert first.decide(score, f"t{i}") == again.decide(score, f"t{i}")


@pytest.mark.parametrize("name", ["stationary", "drifting up", "three values", "sorted down"])
def test_weighting_by_the_inverse_chance_is_unbiased(name):
    """The mean weighted estimate over many runs meets the truth, where the raw mean is far off."""
    scores = STREAMS[name][:1000]
    rng = random.Random(3)
    bad = [rng.random() < 1 / (1 + math.exp(2 - 1.5 * score)) for score in scores]
    weighted, raw = [], []
    for replay in range(60):
        quota = Quota(0.2, 0.02, window=200)
        decisions = [quota.decide(score, f"{replay}-{i}") for i, score in enumerate(scores)]
        judged = [(d, b) for d, b in zip(decisions, bad, strict=True) if d.run]
        weighted.append(sum(b / d.probability for d, b in judged) / len(scores))
        raw.append(sum(b for _, b in judged) / len(judged))
    truth = sum(bad) / len(bad)
    error = statistics.stdev(weighted) / math.sqrt(len(weighted))
    assert abs(statistics.mean(weighted) - truth) < 4 * error
    if name != "sorted down":
        assert statistics.mean(raw) - truth > 10 * error


@given(
    st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.5, 1.0]) | st.floats(0, 1), min_size=1, max_size=60)
)
def test_ranks_are_exact_however_many_scores_are_equal(scores):
    """Over all choices of which score came last, its place among all averages to the middle."""
    for share in (0.0, 0.1, 0.37, 0.9, 1.0):
        chances = []
        for last in range(len(scores)):
            recent = RecentScores(100)
            for score in scores[:last] + scores[last + 1 :]:
                recent.add(score)
            chances.append(Allocation(share, 0.0).chance(*recent.ranks(scores[last])))
        assert statistics.mean(chances) == pytest.approx(share, abs=1e-9)


@given(st.lists(st.floats(-5, 5), max_size=80))
def test_only_the_latest_scores_count(scores):
    """The window holds the last scores in order and forgets the others."""
    recent = RecentScores(10)
    for score in scores:
        recent.add(score)
    assert recent._by_height == sorted(scores[-10:])


def test_a_damaged_window_heals():
    """If a fork came between two steps of another thread, the next additions put it right."""
    recent = RecentScores(10)
    for score in range(10):
        recent.add(float(score))
    recent._by_height.remove(0.0)
    recent.add(10.0)
    assert recent._by_height == [float(score) for score in range(1, 11)]


def test_an_escalation_with_a_budget_goes_by_its_score():
    """The named score ranks the records, and the explanation names it."""
    escalation = Escalation("j", share=0.2, by="risk")
    quota = Quota(0.2, 0.02)
    quota.warm([i / 100 for i in range(100)], "risk")
    decision = escalation.decide({"risk": Evaluation("risk", 0.98)}, "t", quota)
    assert decision.run
    assert decision.why == "risk 0.98 is in the top 18% of recent scores"
    assert escalation.decide({}, "t").probability == 0.2


FORK = """
import os, sys, threading
from llmeval_sdk.evaluation.sampling import Quota
quota = Quota(0.2, 0.02)
held, done = threading.Event(), threading.Event()
def hold():
    with quota._lock:
        held.set()
        done.wait()
threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if child == 0:
    quota.decide(0.5, "t")
    os._exit(0)
_, status = os.waitpid(child, 0)
done.set()
sys.exit(status)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_a_child_never_waits_for_a_lock_that_its_parent_held():
    """A fork while another thread decides leaves a quota that works."""
    command = [sys.executable, "-W", "ignore", "-c", FORK]
    assert subprocess.run(command, timeout=20, check=False).returncode == 0


def test_long_answers_do_not_take_the_share_of_short_ones():
    """An answer of thirty fields has a high worst one; answers are ranked among those as long."""
    dice = random.Random(5)
    quota = Quota(0.2, default_control(0.2))
    judged = {1: 0, 30: 0}
    for turn in range(6_000):
        fields = 30 if turn % 2 else 1
        worst = max(dice.random() for _ in range(fields))
        judged[fields] += quota.decide(worst, f"l{turn}", "extraction_risk", fields).run
    assert all(0.18 <= count / 3_000 <= 0.22 for count in judged.values())


def test_an_unusual_length_is_ranked_among_all_until_it_is_known():
    """The first answers of a length draw by their score, and not at random."""
    quota = Quota(0.2, 0.0)
    quota.warm([n / 100 for n in range(100)], "extraction_risk")
    low = quota.decide(0.01, "k", "extraction_risk", 12)
    assert not low.run
    assert low.probability == 0
