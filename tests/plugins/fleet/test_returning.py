"""Verdicts that return to their host: each is emitted once, however slow the exporters are."""

import threading
import time
from types import SimpleNamespace

import pytest
from doubles import Exporter
from fleet_parts import KEY, until

import llmeval_sdk as llmeval
from llmeval_sdk import config
from llmeval_sdk.model import NotRun, Target, Usage
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.plugins.fleet import _client
from llmeval_sdk.plugins.fleet._judgement_store import QUEUE_KEY, READER, RESULTS
from llmeval_sdk.plugins.fleet._message import JudgementOutcome
from llmeval_sdk.plugins.fleet.settings import FleetSettings
from llmeval_sdk.process.shield import Counts
from llmeval_sdk.testing import capture


HOST = "0123456789abcdef"
LEASE_SECONDS = 0.5


@pytest.fixture
def host(broker, monkeypatch):
    """Return what starts readers of one host, whose exporters take what is emitted at a signal."""
    monkeypatch.setattr(_client, "LEASE_SECONDS", LEASE_SECONDS)
    monkeypatch.setattr(_client, "RENEW_SECONDS", 0.05)
    monkeypatch.setattr(_client, "IDLE_SECONDS", 0.05)
    settings = config.from_environment({}, judge_queue=broker.address, fleet_key=KEY)
    own = settings.of(FleetSettings)
    emitted, delivered, readers = [], threading.Event(), []
    dispatcher = SimpleNamespace(
        emit_judged=emitted.append, barriers=lambda: [SimpleNamespace(done=delivered)]
    )

    def start():
        reader = _client.VerdictReader(own, HOST, dispatcher, Counts(), lambda usage: None)
        closing = threading.Event()

        def serve():
            while not closing.wait(reader.seconds):
                reader.step()
            reader.finish()

        thread = threading.Thread(target=serve)
        thread.start()
        readers.append((closing, thread))
        return SimpleNamespace(shut=closing.set)

    redis = broker.client()

    def push(*numbers):
        for number in numbers:
            item = NotRun(f"{number}", Target("t", "s"), "polite", "timeout", "", 7)
            redis.rpush(RESULTS + HOST, JudgementOutcome(f"{number}", [item]).text(own.fleet_key))

    push(0, 1, 2)
    yield SimpleNamespace(start=start, emitted=emitted, delivered=delivered, redis=redis, push=push)
    delivered.set()
    for closing, thread in readers:
        closing.set()
        thread.join(20)
        assert not thread.is_alive()


def test_exporters_that_take_long_have_each_verdict_once(host):
    """The reader keeps its lease while it waits for them, so no other process reads the same."""
    host.start()
    until(lambda: len(host.emitted) == 3, "three verdicts")
    host.start()
    late = time.monotonic() + 3 * LEASE_SECONDS
    until(lambda: time.monotonic() > late, "three leases")
    host.delivered.set()
    until(lambda: not host.redis.llen(RESULTS + HOST), "an empty list")
    assert len(host.emitted) == 3


def test_a_reader_that_lost_its_lease_emits_nothing_twice(host):
    """It may not remove what another one reads by then, and reads it again when that is gone."""
    host.start()
    until(lambda: len(host.emitted) == 3, "three verdicts")
    host.redis.set(READER + HOST, "another", px=300)
    host.delivered.set()
    until(lambda: not host.redis.llen(RESULTS + HOST), "an empty list")
    assert len(host.emitted) == 3


def test_a_lost_reply_to_a_removal_loses_no_verdict(host, monkeypatch):
    """Redis has removed what was read, and the verdicts that came meanwhile were read by nobody."""
    monkeypatch.setattr(_client, "AWAY_SECONDS", 0.05)
    lost = []

    class Scripts(_client._Scripts):
        def __init__(self, redis):
            super().__init__(redis)
            remove = self.remove

            def losing(**about):
                done = remove(**about)
                if not lost:
                    lost.append(about)
                    host.push(3, 4, 5)
                    raise ConnectionResetError("the reply is lost")
                return done

            self.remove = losing

    monkeypatch.setattr(_client, "_Scripts", Scripts)
    host.delivered.set()
    host.start()
    until(lambda: lost and not host.redis.llen(RESULTS + HOST), "an empty list")
    assert len(host.emitted) == 6


def test_the_end_of_the_process_waits_a_moment_for_exporters(host):
    """What they still take is not left to the next process, which would emit it again."""
    reader = host.start()
    until(lambda: len(host.emitted) == 3, "three verdicts")
    reader.shut()
    late = time.monotonic() + 0.3
    until(lambda: time.monotonic() > late, "a moment")
    host.delivered.set()
    until(lambda: not host.redis.llen(RESULTS + HOST), "an empty list")


class HangingExporter(Exporter):
    """Writes on this host, and hangs until it may go on."""

    name = "memory"

    def __init__(self):
        super().__init__()
        self.may_go_on = threading.Event()

    def export(self, batch, /):
        """Take a batch when somebody says so."""
        self.may_go_on.wait(30)
        return super().export(batch)


def test_a_hanging_exporter_holds_up_no_judgement(broker):
    """Verdicts that wait for an exporter and judgements that go out share one thread."""
    exporter = HangingExporter()
    llmeval.configure(
        evaluators=["groundedness"], escalations=[], exporters=[exporter], heuristics="off",
        judge_queue=broker.address, fleet_key=KEY,
    )  # fmt: skip
    judging, redis = runtime.pipeline().work().worker.judging, broker.client()
    item = NotRun("polite", Target("t", "s"), "polite", "timeout", "", 7)
    key = judging._own.fleet_key
    redis.rpush(RESULTS + judging._host, JudgementOutcome("0", [item]).text(key))
    judging.start()
    until(lambda: judging._reader._batch, "a verdict that waits for the exporter")
    with llmeval.workflow("answer", request="What is it made of?") as span:
        span.response = "Slate."
        span.retrieved_context = ["It is made of slate."]
    until(lambda: redis.llen(QUEUE_KEY), "a message in the queue")
    assert redis.llen(RESULTS + judging._host) == 1
    exporter.may_go_on.set()
    until(lambda: not redis.llen(RESULTS + judging._host), "a verdict that the exporter has")
    llmeval.shutdown(5.0)


def test_usage_that_returns_while_a_decision_adds_its_own_is_not_lost():
    """Two threads add, each to a sum of its own."""
    settings = config.from_environment({}, judge_queue="redis://localhost:1", fleet_key=KEY)
    with capture(raise_again=False):
        plan = runtime.pipeline().plan
        client = _client.FleetClient(plan, SimpleNamespace(emit_judged=print), settings)

    class Used:
        input_tokens, output_tokens, total_tokens = 0, 0, 1

        @property
        def cost_usd(self):
            client._add_usage(Usage(0, 0, 10))  # after the sum so far was read
            return 0.5

    client._add_own(Used())
    assert client.usage == Usage(0, 0, 11, 0.5)
