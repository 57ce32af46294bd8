"""A function is frozen and thawed: what it records arrives with the next invocation at the latest."""

import json
from pathlib import Path
from time import monotonic, sleep, time
from urllib.parse import urlsplit

import pytest
from otlp_collector import attributes_of

from llmeval_sdk.testing.judge_server import MODEL, JudgeServer


FROZEN_SECONDS = 3.0


def arrived(collector):
    """Return the questions of the spans that arrived, as often as they came."""
    with collector.lock:
        texts = [json.dumps(attributes_of(span), default=str) for span in collector.spans]
    return sorted(text.partition("What is roof ")[2].partition(" ")[0] for text in texts)


def asked(function):
    return [str(number) for number in range(len(function.questions))]


def test_a_flush_delivers_each_invocation_before_it_returns(function, collector):
    """Frozen after each of them, there is nothing that would have to be sent afterwards."""
    with function() as running:
        for _ in range(3):
            running.invoke()
            running.freeze()
            assert arrived(collector) == asked(running)
            running.thaw()


def test_without_a_flush_the_next_invocation_sends_what_the_freeze_held_back(function, collector):
    """Frozen right after the answer, for seconds; nothing is lost and nothing is sent twice."""
    with function() as running:
        running.invoke(flush=False)
        running.freeze()
        sleep(FROZEN_SECONDS)
        running.thaw()
        report = running.invoke()
    assert arrived(collector) == asked(running)
    assert (report["losses"], report["undelivered"]) == ("", 0)


def test_a_request_that_froze_halfway_is_sent_again(function, collector):
    """Its time has run out and the far end has hung up when the process thaws."""
    with function(OTEL_EXPORTER_OTLP_TIMEOUT="2000") as running:
        running.invoke()
        collector.hang.set()
        running.invoke(flush=False)
        collector.wait(lambda: collector.hung)
        running.freeze()
        sleep(FROZEN_SECONDS)
        collector.hang.clear()
        collector.released.set()
        running.thaw()
        report = running.invoke()
    assert arrived(collector) == asked(running)
    assert (report["losses"], report["undelivered"]) == ("", 0)


def test_a_connection_that_the_far_end_closed_meanwhile_is_no_loss(function, collector):
    """The first request after the thaw goes out over a new connection, without a failure."""
    collector.idle_seconds = 0.5
    with function() as running:
        running.invoke()
        running.freeze()
        collector.wait(lambda: not collector.connections)
        running.thaw()
        report = running.invoke()
    assert arrived(collector) == asked(running)
    assert (report["losses"], report["problems"]) == ("", {})


def test_the_time_in_the_ice_does_not_use_up_the_retries(function, collector):
    """Of the minutes after which a batch is given up, only those count in which it was tried."""
    with function() as running:
        running.invoke(give_up=2.0)
        before = len(collector.requests)
        collector.always = (503, {}, b"")
        running.invoke(flush=False)
        collector.wait(lambda: len(collector.requests) >= before + 2)
        running.freeze()
        sleep(FROZEN_SECONDS)
        refused = len(collector.requests) + 1
        running.thaw()
        collector.wait(lambda: len(collector.requests) >= refused)
        collector.always = None
        report = running.invoke()
    assert arrived(collector) == asked(running)
    assert report["losses"] == ""


def test_a_flush_does_not_wait_for_the_pause_between_two_attempts(function, collector):
    """After an outage the pause is seconds long; an invocation has no time for it."""
    with function() as running:
        running.invoke()
        collector.always = (503, {}, b"")
        running.invoke(flush=False)
        before = len(collector.requests)
        collector.wait(lambda: len(collector.requests) >= before + 5)  # the next pause takes 3 s
        collector.always = None
        report = running.invoke()
    assert report["took"] < 2.0
    assert arrived(collector) == asked(running)


def judging(server, **settings):
    """Return the settings of a function whose requests a server judges, all of them."""
    return {
        "LLMEVAL_JUDGE_MODEL": MODEL,
        "LLMEVAL_EVALUATORS": "groundedness",
        "LLMEVAL_JUDGE_SHARE": "1",
        "OPENAI_BASE_URL": server.base_url,
        "OPENAI_API_KEY": "none",
        **settings,
    }


@pytest.mark.parametrize("timeout", ["60", "2"])
def test_a_judgement_that_froze_halfway_gives_its_verdict(function, collector, timeout):
    """The judge model answers while the process is frozen, for longer than a judgement may take."""
    with (
        JudgeServer(default="slow", delay=1.0) as judge,
        function(**judging(judge, LLMEVAL_JUDGE_TIMEOUT=timeout)) as running,
    ):
        running.invoke(flush=False)
        collector.wait(lambda: judge.calls)
        running.freeze()
        sleep(FROZEN_SECONDS)
        running.thaw()
        report = running.invoke()
    assert (report["judged"], report["not_run"]) == ({"groundedness": 2}, {}), report
    assert (report["losses"], report["undelivered"]) == ("", 0)
    assert judge.calls == 2


def test_a_judgement_whose_connection_was_cut_in_the_freeze_is_asked_for_again(function, collector):
    """The far end has forgotten the process, which was frozen for longer than it may take."""
    judge = JudgeServer(default="hang")
    judge.start()
    with function(**judging(judge, LLMEVAL_JUDGE_TIMEOUT="2")) as running:
        running.invoke(flush=False)
        collector.wait(lambda: judge.calls)
        running.freeze()
        port = urlsplit(judge.base_url).port
        judge.stop()
        sleep(FROZEN_SECONDS)
        with JudgeServer(port=port) as judge:
            running.thaw()
            report = running.invoke()
    assert (report["judged"], report["not_run"]) == ({"groundedness": 2}, {}), report


def test_an_open_breaker_probes_again_after_the_freeze(function, collector):
    """What it learnt of the model before is old by then; a good answer closes it."""
    with (
        JudgeServer(default="unavailable") as judge,
        function(COOL_DOWN="2.5", **judging(judge)) as running,
    ):
        for _ in range(5):
            running.invoke(flush=False)
        running.invoke()
        refused = running.invoke()
        assert refused["not_run"]["circuit_open"] == 1, refused
        asked_before = judge.calls
        judge.default = "good"
        running.freeze()
        sleep(FROZEN_SECONDS)
        running.thaw()
        running.invoke()
        report = running.invoke()
    assert report["judged"]["groundedness"] == 2, report
    assert report["not_run"] == refused["not_run"]
    assert judge.calls == asked_before + 2


def test_a_probe_that_froze_closes_the_breaker(function, collector):
    """Its time stood still: the model has answered it, and is not taken for down."""
    with (
        JudgeServer(default="unavailable", delay=1.0) as judge,
        function(COOL_DOWN="2.5", **judging(judge, LLMEVAL_JUDGE_TIMEOUT="2")) as running,
    ):
        for _ in range(5):
            running.invoke(flush=False)
        running.invoke()
        judge.default = "slow"
        sleep(2.5)
        asked_before = judge.calls
        running.invoke(flush=False)
        collector.wait(lambda: judge.calls > asked_before)
        running.freeze()
        sleep(FROZEN_SECONDS)
        running.thaw()
        report = running.invoke()
    assert report["judged"]["groundedness"] == 2, report


def test_after_the_freeze_a_new_minute_allows_its_calls_and_no_more(function):
    """Calls of before the freeze no longer count; those of one minute never add up to two."""
    with (
        JudgeServer() as judge,
        function(**judging(judge, LLMEVAL_BUDGET_CALLS_PER_MINUTE="3")) as running,
    ):
        before = [running.invoke() for _ in range(5)][-1]
        running.freeze()
        running.thaw()
        same = running.invoke(later=30)
        after = [running.invoke(later=31 * (number == 0)) for number in range(5)][-1]
    assert before["judged"] == same["judged"] == {"groundedness": 3}
    assert same["not_run"] == {"over_budget": 3}
    assert after["judged"] == {"groundedness": 6}
    assert after["not_run"] == {"over_budget": 5}


def test_the_budget_of_the_day_outlives_the_freeze_and_ends_with_the_day(function):
    """A freeze of hours gives nothing back; a new day does."""
    prices = json.dumps({MODEL: [1.0, 1.0]})
    with (
        JudgeServer() as judge,
        function(
            **judging(judge, LLMEVAL_PRICES=prices, LLMEVAL_BUDGET_USD_PER_DAY="0.02")
        ) as running,
    ):
        left = 86_400 - time() % 86_400
        assert left > 60, "the day is about to end"
        reports = [running.invoke() for _ in range(30)]
        spent = reports[-1]["judged"]["groundedness"]
        assert 0 < spent < 30, reports[-1]
        running.freeze()
        running.thaw()
        same_day = running.invoke(later=left / 2)
        next_day = running.invoke(later=left / 2 + 1)
    assert same_day["judged"]["groundedness"] == spent
    assert next_day["judged"]["groundedness"] == spent + 1


def test_an_invocation_with_little_time_returns_in_time_beside_a_dead_far_end(function, collector):
    """It has 50 ms, and the far end says nothing until it has returned."""
    with function(timeout=600.0) as running:
        running.invoke()
        collector.hang.set()
        running.invoke(left_ms=50)
        collector.hang.clear()
        collector.released.set()
        assert running.invoke()["undelivered"] == 0
    assert arrived(collector) == asked(running)


def test_an_outage_costs_one_invocation_its_time_and_the_others_a_part_of_it(function, collector):
    """The far end hangs; the app must not be slow because of that, again and again."""
    with function(timeout=3.0) as running:
        running.invoke()
        collector.hang.set()
        first, second = running.invoke(), running.invoke()
        assert first["took"] >= 3.0
        assert second["took"] < first["took"] / 2


def test_nothing_runs_after_the_flush(function):
    """No thread wakes up for seconds: there is nothing that a freeze could cut in two."""
    with JudgeServer() as judge, function(**judging(judge)) as running:
        for _ in range(3):
            running.invoke()
        settled = monotonic() + 10
        while (before := wakings(running.pid)) != (sleep(0.2), wakings(running.pid))[1]:
            assert monotonic() < settled, "the threads do not come to rest"
        sleep(FROZEN_SECONDS)
        assert wakings(running.pid) == before


def wakings(pid):
    """Return how often each thread of a process has stopped running, which it must to run again."""
    times = {}
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        lines = status.read_text().splitlines()
        times[status.parent.name] = [line for line in lines if "ctxt_switches" in line]
    return times


@pytest.mark.parametrize("exporters", ["local", "otlp"])
@pytest.mark.parametrize("spool", ["", "/proc/nowhere/spool"])
def test_a_read_only_disk_costs_a_line_and_no_result(function, collector, exporters, spool):
    """There is no place to write: neither the current folder nor the home nor a temporary one."""
    places = dict.fromkeys(("HOME", "TMPDIR", "XDG_STATE_HOME"), "/proc/nowhere")
    with function(
        cwd="/proc",
        LLMEVAL_EXPORTERS=exporters,
        LLMEVAL_STORE=".llmeval/llmeval.db",
        LLMEVAL_SPOOL=spool,
        **places,
    ) as running:
        reports = [running.invoke() for _ in range(3)]
        errors = running.end()
    assert "Traceback" not in errors
    lines = errors.splitlines()
    assert sum("kept in memory only" in line and "exit" not in line for line in lines) == (
        exporters == "local"
    )
    assert sum("spool: not used" in line for line in lines) == bool(spool)
    assert [report["undelivered"] for report in reports] == [0, 0, 0]
    if exporters == "otlp":
        assert arrived(collector) == asked(running)
