"""Verdicts that return to their host: each is emitted once, however slow the exporters are."""

import threading
import time
from types import SimpleNamespace

import pytest
from fleet_parts import KEY, until

from llmeval_sdk import config
from llmeval_sdk.model import NotRun, Target
from llmeval_sdk.plugins.fleet import _client
from llmeval_sdk.plugins.fleet._judgement_store import READER, RESULTS
from llmeval_sdk.plugins.fleet._message import JudgementOutcome
from llmeval_sdk.plugins.fleet.settings import FleetSettings
from llmeval_sdk.process.shield import Counts


HOST = "0123456789abcdef"
LEASE_SECONDS = 0.5


@pytest.fixture
def host(broker, monkeypatch):
    """Return what starts readers of one host, whose exporters take what is emitted at a signal."""
    monkeypatch.setattr(_client, "LEASE_SECONDS", LEASE_SECONDS)
    monkeypatch.setattr(_client, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(_client, "IDLE_SECONDS", 0.05)
    settings = config.from_environment({}, judge_queue=broker.address, fleet_key=KEY)
    own = settings.of(FleetSettings)
    emitted, delivered, readers = [], threading.Event(), []
    dispatcher = SimpleNamespace(
        emit_judged=emitted.append, barriers=lambda: [SimpleNamespace(done=delivered)]
    )

    def start():
        reader = _client.VerdictReader(own, HOST, dispatcher, Counts(), lambda usage: None)
        reader.start()
        readers.append(reader)
        return reader

    redis = broker.client()
    for number in range(3):
        item = NotRun(f"{number}", Target("t", "s"), "polite", "timeout", "", 7)
        redis.rpush(RESULTS + HOST, JudgementOutcome(f"{number}", [item]).text(own.fleet_key))
    yield SimpleNamespace(start=start, emitted=emitted, delivered=delivered, redis=redis)
    delivered.set()
    for reader in readers:
        reader.shut()
    for reader in readers:
        assert reader._thread.join(time.monotonic() + 20)


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


def test_the_end_of_the_process_waits_a_moment_for_exporters(host):
    """What they still take is not left to the next process, which would emit it again."""
    reader = host.start()
    until(lambda: len(host.emitted) == 3, "three verdicts")
    reader.shut()
    late = time.monotonic() + 0.3
    until(lambda: time.monotonic() > late, "a moment")
    host.delivered.set()
    until(lambda: not host.redis.llen(RESULTS + HOST), "an empty list")
