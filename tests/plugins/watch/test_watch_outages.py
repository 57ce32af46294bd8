"""An alert whose judge gives no verdicts is neither calm nor an alarm, and says what is missing."""

import json
import subprocess
import sys
import threading

import pytest
from raw_store import HOUR


ALERT = ("--alert", "groundedness<0.9")


@pytest.fixture
def report(llmeval, traffic):
    def run(*args):
        return llmeval("report", "--store", traffic.path, *ALERT, *args)

    return run


def outage_lost(traffic):
    traffic.hours(10, 1, 0.02, lost=1.0)
    return "judgements were lost"


def outage_without_model(traffic):
    traffic.hours(10, 1, 0.02, lost=1.0, why="no_judge_model")
    return "no judge model was configured for"


def outage_unselected(traffic):
    traffic.hours(10, 1, 0.02, chance=0.0)
    return "requests since then would usually have been judged"


def outage_removed(traffic):
    traffic.served(60, 1)
    traffic.connection.execute("UPDATE evaluations SET time_ns = time_ns - ?", (30 * HOUR,))
    traffic.connection.execute("DELETE FROM not_run")
    return "although the app went on serving requests"


@pytest.mark.parametrize(
    "outage", [outage_lost, outage_without_model, outage_unselected, outage_removed]
)
def test_a_dead_judge_is_not_calm(traffic, watch, report, outage):
    """Exit code 2 and since when, in both commands, after two good days and nine hours without."""
    traffic.hours(58, 10, 0.02)
    assert report().returncode == 0
    why = outage(traffic)
    done = watch(*ALERT)
    assert done.returncode == 2, done.stdout
    assert "undecided" in done.stdout
    told = " ".join(done.stdout.split())
    assert "no verdict since 20" in told
    assert why in told
    done = report()
    assert done.returncode == 2
    assert "cannot be decided (no verdict since 20" in done.stdout
    assert why in done.stdout


def test_an_app_without_traffic_stays_calm(traffic, watch):
    """Nothing is served for three days, so nothing is missing."""
    traffic.hours(120, 72, 0.02)
    traffic.served(120, 72)
    assert watch(*ALERT).returncode == 0


def test_hours_without_verdicts_raise_no_alarm(traffic, watch, report):
    """The judge dies for two days while the mean is a little below its bound, and comes back.

    What free scores predict is no evidence by itself: nothing would correct it.
    """
    traffic.hours(80, 74, 0.13)
    traffic.hours(74, 2, 0.13, lost=1.0)
    assert watch(*ALERT).returncode == 2
    assert report().returncode == 2
    traffic.hours(2, 1, 0.0)
    traffic.path.with_suffix(".state").unlink()
    done = watch(*ALERT)
    assert done.returncode == 0, done.stdout
    assert "72 hours of the last seven days could not be counted" in done.stdout


def test_a_judge_that_never_answered_says_so(traffic, watch):
    """With how many verdicts it would take: the number is not that of requests times none."""
    traffic.hours(10, 1, 0.02, lost=1.0)
    standing = json.loads(watch(*ALERT, "--json").stdout)["alerts"][0]
    assert standing["state"] == "undecided"
    assert standing["detail"].startswith("no verdict so far: all ")
    assert standing["needed"] > 100


def test_what_is_recorded_and_not_counted_is_said(traffic, watch):
    """Partial loss, hours of two judges, verdicts without a chance: calm, and a sentence each."""
    traffic.hours(40, 1, 0.02, lost=0.3)
    for version in "12":
        traffic.hours(44, 40, 0.02, version=version)
    traffic.hours(40, 39, 0.02, weight=None)
    done = watch(*ALERT)
    assert done.returncode == 0, done.stdout
    told = " ".join(done.stdout.split())
    assert "of the judgements of the last days were lost (about" in told
    assert "4 hours of the last seven days could not be counted" in told
    assert "verdicts have no inclusion probabilities" in told


def test_verdicts_that_arrive_late_are_counted(traffic, watch):
    """Records of hours that were counted already, as a spool brings them, raise the alarm."""
    traffic.hours(100, 20, 0.05)
    traffic.hours(2, 1, 0.05)
    assert watch(*ALERT).returncode == 0
    traffic.hours(20, 2, 0.6)
    standing = json.loads(watch(*ALERT, "--json").stdout)["alerts"][0]
    assert standing["state"] == "alarm"
    assert standing["notes"] == []
    again = json.loads(watch(*ALERT, "--json").stdout)["alerts"][0]
    assert again["judged"] == standing["judged"]


def test_late_verdicts_of_hours_that_were_left_out_are_left_out(traffic, watch):
    """The requests that nobody chose were not counted, so their verdicts would be a bad sample."""
    traffic.hours(60, 10, 0.05)
    traffic.hours(10, 2, 0.05, lost=1.0)
    traffic.hours(2, 1, 0.05)
    before = json.loads(watch(*ALERT, "--json").stdout)["alerts"][0]
    traffic.hours(10, 2, 0.9, chance=1.0)
    after = json.loads(watch(*ALERT, "--json").stdout)["alerts"][0]
    assert after["judged"] == before["judged"]
    assert any(note.startswith("320 records came too late") for note in after["notes"])


def test_a_watch_without_end_says_when_nothing_can_be_decided(traffic):
    """Its standard output says that the judge is silent, once."""
    traffic.hours(40, 10, 0.02)
    traffic.hours(10, 1, 0.02, lost=1.0)
    command = [sys.executable, "-u", "-m", "llmeval_sdk", "watch", "--store", str(traffic.path)]
    with subprocess.Popen(
        [*command, *ALERT, "--every", "1s"], stdout=subprocess.PIPE, text=True
    ) as process:
        deadline = threading.Timer(45.0, process.kill)
        deadline.start()
        line = process.stdout.readline()
        deadline.cancel()
        process.terminate()
    assert "groundedness<0.9: cannot be decided: no verdict since" in line


def test_counts_that_cannot_be_read_begin_anew(traffic, watch, remembered):
    """Whatever stands in the file: a sentence, and the command goes on."""
    traffic.hours(10, 1, 0.02)
    code = watch(*ALERT).returncode
    for alerts in ([], {"groundedness<0.9": []}, {"groundedness<0.9": {"recovery": 7}}):
        with remembered() as plain:
            plain["alerts"] = alerts
        done = watch(*ALERT)
        assert done.returncode == code
        assert "cannot be read" in " ".join(done.stderr.split())
        assert "Traceback" not in done.stderr
        assert watch(*ALERT).stderr == ""
