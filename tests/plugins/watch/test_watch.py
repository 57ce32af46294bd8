"""``llmeval watch``: an alarm is told once, can be silenced and resolved, and says when it is over."""

import json
import re
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest
from raw_store import HOUR


ALERT = ("--alert", "groundedness<0.9")


def test_a_drop_raises_one_alarm_that_says_all_there_is_to_know(traffic, watch, hook):
    """Since when, how sure, which spans, the worst examples with links; and only once."""
    traffic.hours(100, 20, 0.05)
    assert watch(*ALERT).returncode == 0
    traffic.hours(20, 1, 0.5)
    env = {"LLMEVAL_ALERT_WEBHOOK": hook.url, "LLMEVAL_ALERT_TOKEN": "token-of-the-hook"}
    # the hours above were not there at the first look, which had counted beyond them
    (traffic.path.with_suffix(".state")).unlink()
    done = watch(*ALERT, **env)
    assert done.returncode == 1, done.stderr
    (told,) = hook.taken
    assert told["kind"] == "raised"
    assert told["alert"] == "groundedness<0.9"
    assert told["chance_of_a_false_alarm"] <= 0.05
    assert told["low"] <= told["mean"] <= told["high"] < 0.9
    assert told["spans"][0]["span"] == "answer"
    assert len(told["worst"]) == 5
    assert told["worst"][0]["value"] == 0
    assert told["worst"][0]["link"].startswith("http://127.0.0.1:8520/traces/")
    assert "ALARM groundedness<0.9, since about" in told["text"]
    assert "(95 % interval" in told["text"]
    assert re.search(
        r", the limit 0.9. The chance of a false alarm is (under|at most) [\d.]+ %", told["text"]
    )
    assert hook.headers[0]["authorization"] == "Bearer token-of-the-hook"
    again = watch(*ALERT, **env)
    assert again.returncode == 1
    assert len(hook.taken) == 1
    for text in (done.stdout, done.stderr, again.stdout):
        assert "hidden-key" not in text
        assert "token-of-the-hook" not in text


@pytest.mark.parametrize("by", [(), ("--by", "tag:tenant")], ids=["all", "by group"])
def test_verdicts_of_an_hour_that_is_not_over_are_said_to_wait(traffic, watch, by):
    """In the first hour "nothing was judged" would be false, and nothing is broken."""
    for number in range(9):
        ids = {"trace_id": f"{number:032x}", "span_id": f"{number:016x}"}
        at, tags = traffic.now, json.dumps({"tenant": "acme"})
        traffic.insert("spans", **ids, name="answer", start_ns=at, end_ns=at, tags=tags)
        traffic.insert(
            "evaluations", **ids, id=f"{number}", span_name="answer", time_ns=at, value="yes",
            name="groundedness", evaluator_kind="judge", inclusion_probability=0.5,
        )  # fmt: skip
    done = watch(*ALERT, *by)
    told = " ".join(done.stdout.split())
    assert "the hour of the first 9 verdicts is not over: they count from " in told
    assert "nothing was judged" not in told
    assert done.returncode == 0


def test_an_alarm_is_over_when_quality_came_back(traffic, watch):
    """Three good days after a bad one: the alarm is told as raised and as over, and ends."""
    traffic.hours(120, 90, 0.5)
    traffic.hours(90, 1, 0.02)
    done = watch(*ALERT, "--json")
    found = json.loads(done.stdout)
    assert found["alerts"][0]["state"] == "calm"
    assert done.returncode == 0
    assert found["told"] == []  # nobody had heard of it, and it was over
    state = json.loads(
        sqlite3.connect(traffic.path.with_suffix(".state"))
        .execute("SELECT text FROM texts WHERE name = 'alerts'")
        .fetchone()[0]
    )
    assert state["version"] == 2


def test_an_alarm_is_silenced_and_resolved(traffic, watch):
    """Silence takes it out of the exit code; resolving ends it until there is new evidence."""
    traffic.hours(40, 1, 0.5)
    assert watch(*ALERT).returncode == 1
    silenced = watch(*ALERT, "--silence", "24h")
    assert silenced.returncode == 0
    assert "silenced until" in silenced.stdout
    assert watch(*ALERT, "--silence", "0s").returncode == 1
    assert watch(*ALERT, "--resolve").returncode == 0
    assert watch(*ALERT).returncode == 0


def test_what_a_far_end_does_not_take_is_told_at_the_next_look(traffic, watch, hook):
    """Trouble that passes is tried again at once; a lasting one is said, kept, and told later."""
    traffic.hours(40, 1, 0.5)
    env = {"LLMEVAL_ALERT_WEBHOOK": hook.url}
    hook.answers = [404]
    done = watch(*ALERT, **env)
    assert done.returncode == 1
    assert "was not told, and is kept" in done.stderr
    assert hook.taken == []
    hook.answers = [503]
    assert watch(*ALERT, **env).returncode == 1
    assert len(hook.taken) == 1


def test_two_processes_at_once_tell_once(traffic, hook, process):
    """They share what was counted, under a lock."""
    traffic.hours(40, 1, 0.5)
    results = []
    args = ("watch", "--once", "--store", traffic.path, *ALERT)

    def look():
        results.append(process(*args, LLMEVAL_ALERT_WEBHOOK=hook.url).returncode)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [1, 1, 1]
    assert len(hook.taken) == 1


def test_two_versions_of_a_judge_are_never_mixed(traffic, watch):
    """A new version begins anew and says so; two at the same time cannot be decided."""
    traffic.hours(60, 30, 0.02)
    traffic.hours(30, 10, 0.02, version="2")
    told = json.loads(watch(*ALERT, "--json").stdout)["told"]
    assert [each["kind"] for each in told] == ["judge_changed"]
    assert "1 -> 2" in told[0]["text"]
    traffic.path.with_suffix(".state").unlink()
    traffic.hours(30, 10, 0.02, version="1")
    done = watch(*ALERT)
    assert done.returncode == 2
    assert "two versions of the judge answer in the same hour (1 and 2)" in done.stdout


def decide(traffic, model, hours):
    """Let a decision model have answered before the judge model did, in the last hours."""
    traffic.connection.execute(
        "INSERT INTO evaluations (id, trace_id, span_id, span_name, time_ns, value, probability,"
        " evaluator_version, inclusion_probability, name, evaluator_kind, metadata)"
        " SELECT span_id || '-d', trace_id, span_id, span_name, time_ns, 'yes', 0.9, '1', 1.0,"
        " name, 'decision', json_object('model', ?) FROM evaluations WHERE time_ns >= ?",
        (model, traffic.now - hours * HOUR),
    )


def test_a_moved_decision_model_begins_anew(traffic, watch):
    """Before the same judge model; hours in which no decision model answered change nothing."""
    traffic.hours(80, 60, 0.02)
    decide(traffic, "small-1", 80)
    traffic.hours(60, 30, 0.02)
    assert json.loads(watch(*ALERT, "--json").stdout)["told"] == []
    traffic.hours(30, 10, 0.02)
    decide(traffic, "small-2", 30)
    traffic.path.with_suffix(".state").unlink()
    told = json.loads(watch(*ALERT, "--json").stdout)["told"]
    assert [event["kind"] for event in told] == ["judge_changed"]
    assert "1 after small-1 -> 1 after small-2" in told[0]["text"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "nothing to watch"),
        (("--alert", "groundedness"), "is not an alert"),
        (("--alerts", "nowhere.txt"), "cannot be read"),
        ((*ALERT, "--silence", "long"), "is not a length of time"),
    ],
)
def test_a_mistake_is_said(watch, traffic, args, message):
    """With exit code 2, and what was expected."""
    done = watch(*args)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_mean_beyond_its_bound_is_never_calm(traffic, watch, llmeval):
    """Too few judged requests for an alarm: undecided, what is missing, and no broken exit code."""
    traffic.hours(3, 1, 0.25, per_hour=10, chance=1.0)
    found = watch("--alert", "groundedness>0.6", "--json")
    (standing,) = json.loads(found.stdout)["alerts"]
    assert standing["mean"] > 0.6
    assert (standing["state"], standing["waiting"], found.returncode) == ("undecided", True, 0)
    assert "the mean is beyond its bound, and too little was judged" in standing["detail"]
    report = llmeval("report", "--store", traffic.path, "--alert", "groundedness>0.6")
    assert report.returncode == 0
    assert "groundedness>0.6: undecided" in " ".join(report.stdout.split())


def test_an_alarm_shows_the_mean_of_the_part_that_it_is_about(traffic, watch, llmeval):
    """A hundred good hours before the drop are not in the mean beside the alarm."""
    traffic.hours(120, 20, 0.0)
    traffic.hours(20, 1, 0.5)
    (standing,) = json.loads(watch(*ALERT, "--json").stdout)["alerts"]
    assert standing["state"] == "alarm"
    assert standing["mean"] < 0.65
    assert standing["judged"] < 600
    report = json.loads(llmeval("report", "--store", traffic.path, *ALERT, "--json").stdout)
    assert report["alerts"][0]["estimate"]["mean"] < 0.65


def test_a_wrong_name_is_an_error_that_names_the_nearest(traffic, watch):
    """A typo is no alert of which nothing was judged; nothing is remembered of it."""
    traffic.hours(3, 1, 0.0)
    done = watch("--alert", "groundednes<0.9")
    assert done.returncode == 2
    assert (
        "nothing in the store is named 'groundednes': did you mean 'groundedness'?" in done.stderr
    )
    assert watch("--alert", "stars<0.9").returncode == 2
    assert watch("--alert", "correctness<0.9").stderr == ""  # a judge that has not run yet


def test_what_cannot_be_decided_says_what_it_needs(traffic, watch):
    """Nothing judged, or no control sample: exit code 2, and how many judged requests it takes."""
    done = watch(*ALERT)
    assert done.returncode == 2
    assert re.search(
        r"nothing was judged; about [\d,]+ judged requests would show a drop", done.stdout
    )
    traffic.hours(60, 1, 0.12, chance=1.0)
    found = json.loads(watch("--alert", "groundedness<0.88", "--json").stdout)["alerts"][0]
    assert found["state"] == "calm" or found["needed"] is None
    traffic.connection.execute("UPDATE evaluations SET inclusion_probability = 0")
    traffic.path.with_suffix(".state").unlink()
    done = watch(*ALERT)
    assert done.returncode == 2
    assert "no inclusion probabilities" in done.stdout


def test_what_is_remembered_by_a_newer_release_is_left_alone(traffic, watch):
    """It says so, and does not begin anew over it."""
    traffic.hours(10, 1, 0.02)
    assert watch(*ALERT).returncode == 0
    with closing(sqlite3.connect(traffic.path.with_suffix(".state"))) as state:
        state.execute("UPDATE texts SET text = '{\"version\": 99}'")
        state.commit()
    done = watch(*ALERT)
    assert done.returncode == 2
    assert "newer release" in done.stderr


def test_flapping_quality_raises_no_flapping_alarm(traffic, watch):
    """Good and bad hours in turn, below the bound in the mean: one alarm that stays."""
    for hour in range(120, 1, -1):
        traffic.hours(hour, hour - 1, 0.3 if hour % 2 else 0.0)
    told = json.loads(watch(*ALERT, "--json").stdout)["told"]
    assert [each["kind"] for each in told] == ["raised"]


def test_it_watches_until_it_is_ended(traffic):
    """The process tells the alarm on its standard output and goes on."""
    traffic.hours(40, 1, 0.5)
    command = [sys.executable, "-u", "-m", "llmeval_sdk", "watch", "--store", str(traffic.path)]
    with subprocess.Popen(
        [*command, *ALERT, "--every", "1s"], stdout=subprocess.PIPE, text=True
    ) as process:
        lines = [process.stdout.readline() for _ in range(3)]
        process.terminate()
    assert any("ALARM" in line for line in lines)
