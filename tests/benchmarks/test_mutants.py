"""What `make mutants` kept: whether the tests of six rooms notice that their code is wrong."""

import json
import re
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]
RESULT = json.loads((ROOT / "benchmarks/results/mutants.json").read_text("utf-8"))
EQUIVALENT = json.loads((ROOT / "tests/support/equivalent_mutants.json").read_text("utf-8"))
ROOMS = ["statistics", "budget", "sampling", "escalation", "spool", "accounting"]


def test_all_rooms_were_tried_with_one_seed():
    """The result says when, with what and from which seed, so that anybody can draw the same."""
    assert list(RESULT["rooms"]) == ROOMS
    assert isinstance(RESULT["seed"], int)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", RESULT["date"])
    assert {"python", "mutmut", "llmeval-inprocess"} <= RESULT.keys()


@pytest.mark.parametrize("room", ROOMS)
def test_seven_of_ten_mutants_are_killed(room):
    """Of 150 in each room; a mutant that timed out, or that no test sees, is not killed."""
    account = RESULT["rooms"][room]
    others = account["survived"] + account["timed out"] + account["no test"]
    assert account["drawn"] == account["killed"] + others == 150
    assert account["killed"] / account["drawn"] >= 0.7


@pytest.mark.parametrize("room", ROOMS)
def test_each_survivor_can_be_looked_at(room):
    """It has its file, line and difference, and those of no other outcome are missing."""
    account = RESULT["rooms"][room]
    found = [row["outcome"] for row in account["survivors"]]
    for outcome in ("survived", "timed out", "no test"):
        assert found.count(outcome) == account[outcome]
    for row in account["survivors"]:
        assert (ROOT / row["file"]).is_file()
        assert row["line"] > 0
        assert row["diff"].startswith(("-", "+"))


def test_whoever_calls_a_mutant_equivalent_says_why():
    """One sentence, about a file that is there."""
    for row in EQUIVALENT:
        assert (ROOT / row["file"]).is_file()
        assert len(row["why"].split()) >= 5
