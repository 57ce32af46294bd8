"""Records to label: fewer are needed, the chance of each is known, and they stay the same ones."""

import random
from statistics import mean, median

import pytest

from benchmarks.quality import labelling
from benchmarks.quality.labels import JUDGES
from llmeval_sdk.statistics import Candidate, choose
from llmeval_sdk.statistics.labels import FAILED_OFF, PASSED_OFF, RISKY_OFF


def records(count, seed=1):
    rng = random.Random(seed)
    return [
        Candidate(str(n), float(rng.random() < 0.8), rng.choice([0.1, 0.4, 1.0]), rng.random())
        for n in range(count)
    ]


def test_chosen_labels_say_more_than_random_ones():
    """At 10 % bad it takes 1.3 times fewer for the same width; `make quality` has more seeds."""
    uniform, chosen, covered, _ = labelling.simulate(JUDGES[0], 100, seeds=8, records=2_000)
    assert (median(uniform) / median(chosen)) ** 2 >= 1.3
    assert covered >= 0.75


def test_the_chance_of_a_record_is_the_one_it_is_chosen_with():
    """Weighed by the inverse of their chances, the chosen ones count all records, on average."""
    candidates = records(400)
    totals = [
        sum(1 / each.chance for each in choose(candidates, 60, key=str(seed)))
        for seed in range(300)
    ]
    assert mean(totals) == pytest.approx(400, rel=0.05)


def test_the_same_records_are_chosen_until_the_traffic_changes():
    """And more of them for a larger count."""
    candidates = records(300)
    first = choose(candidates, 50)
    assert first == choose(list(reversed(candidates)), 50)
    assert {each.id for each in first} < {each.id for each in choose(candidates, 100)}
    assert all(0 < each.chance <= 1 for each in first)


def test_all_records_are_chosen_for_certain_where_there_are_few():
    """Constant and missing free scores are no trouble either."""
    few = [Candidate("a", 1.0, 1.0), Candidate("b", 0.0, 0.5, 0.3), Candidate("c", 1.0, 0.5, 0.3)]
    assert {each.id: each.chance for each in choose(few, 10)} == {"a": 1.0, "b": 1.0, "c": 1.0}
    assert choose([], 10) == []


def test_a_chance_follows_how_often_people_are_taken_to_disagree():
    """More for a verdict that fails, for a higher risk, and for a record that stands for many."""
    kinds = {  # what is the same for ten records: verdict, chance, risk
        "passed, safe": (1.0, 1.0, 0.0), "passed, at the pass mark": (0.5, 1.0, 0.0),
        "passed, unknown": (1.0, 1.0, None), "passed, risky": (1.0, 1.0, 1.0),
        "failed": (0.0, 1.0, 0.0), "passed, of ten": (1.0, 0.1, 0.0),
    }  # fmt: skip
    candidates = [
        Candidate(f"{kind}/{number}", *made) for kind, made in kinds.items() for number in range(10)
    ]
    chances = {}
    for seed in range(200):
        for each in choose(candidates, 5, key=str(seed)):
            chances.setdefault(each.id.partition("/")[0], set()).add(each.chance)

    def off(often):
        return (often * (1 - often)) ** 0.5

    rank = (10 + 10 + 10 + 100) / (10 + 10 + 10 + 10 + 100)  # of the riskiest, by who has a score
    sizes = {
        "passed, safe": off(PASSED_OFF), "passed, at the pass mark": off(PASSED_OFF),
        "passed, unknown": off(PASSED_OFF + RISKY_OFF * 0.25),
        "passed, risky": off(PASSED_OFF + RISKY_OFF * rank**2),
        "failed": off(FAILED_OFF), "passed, of ten": 10 * off(PASSED_OFF),
    }  # fmt: skip
    for seed in range(30):
        chosen = choose(candidates, 5, key=str(seed))
        units = {
            each.chance / sizes[each.id.partition("/")[0]] for each in chosen if each.chance < 1
        }
        assert max(units) == pytest.approx(min(units))
    assert chances.keys() == kinds.keys()
