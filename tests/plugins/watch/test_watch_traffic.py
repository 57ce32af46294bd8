"""``llmeval watch`` tells once that the traffic is beyond a plain bound, and once that it is over."""

import json
import time

import pytest


SECOND = 1_000_000_000


@pytest.fixture
def look(llmeval, store):
    def run(*options):
        done = llmeval("watch", "--once", "--json", "--store", store.path, *options)
        return done.returncode, json.loads(done.stdout)

    return run


def request(store, number, took_ns, ago_seconds=60):
    start = time.time_ns() - ago_seconds * SECOND
    store.span(
        f"{number:016x}", "answer", trace_id=f"{number:032x}", start_ns=start,
        end_ns=start + took_ns,
    )  # fmt: skip


def test_it_is_raised_once_and_over_once(look, store):
    """The first look beyond the bound tells, the next does not, and the end of it is told too."""
    bound = ("--alert", "latency_seconds.p50>2")
    request(store, 1, 5 * SECOND)
    code, told = look(*bound)
    assert (code, [each["kind"] for each in told["told"]]) == (1, ["raised"])
    assert "it was 5 from" in told["told"][0]["text"]
    code, told = look(*bound)
    assert (code, told["told"]) == (1, [])
    for number in range(2, 9):
        request(store, number, SECOND // 10)
    code, told = look(*bound)
    assert (code, [each["kind"] for each in told["told"]]) == (0, ["over"])
    assert told["alerts"][0]["state"] == "calm"


def test_only_the_window_counts(look, store):
    """What is older than the window is not looked at."""
    request(store, 1, 5 * SECOND, ago_seconds=3_000)
    assert look("--alert", "latency_seconds.p95>2")[0] == 1
    code, told = look("--alert", "latency_seconds.p95>2", "--window", "10m")
    assert code == 1  # the alarm is in force until something says that it is over
    assert told["alerts"][0]["mean"] is None


def test_it_can_be_silenced_beside_an_alert_on_a_score(look, store):
    """Both kinds of alerts stand in one command, and silence concerns both."""
    request(store, 1, 5 * SECOND)
    _, told = look(
        "--alert", "latency_seconds.p95>2", "--alert", "groundedness<0.9", "--silence", "1h"
    )
    states = {each["alert"]: each["state"] for each in told["alerts"]}
    assert states["latency_seconds.p95>2"] == "silenced"
    assert told["told"] == []


def test_a_bound_is_remembered_as_one_sort_alone(look, store):
    """Feedback under a name that nobody had makes a bound a plain one, and it stays silenced."""
    bound = ("--alert", "helpful<0.9")
    request(store, 1, SECOND)
    look(*bound, "--silence", "1h")
    store.feedback(1, "helpful", value=False)
    _, told = look(*bound)
    (alert,) = told["alerts"]
    assert (alert["alert"], alert["state"]) == ("helpful<0.9", "silenced")
