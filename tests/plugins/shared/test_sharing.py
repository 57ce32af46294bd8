"""What hosts share beside the budget: verdicts, breakers, scores; and what Redis may never hold up."""

import asyncio
import json
import os
import subprocess
import sys
import time

import pytest
from shared_hosts import limiter_of

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.backoff import Breaker
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.escalation import Escalation, JudgeGate
from llmeval_sdk.evaluation.models import RateLimiter
from llmeval_sdk.evaluation.verdicts import VerdictKey, Verdicts
from llmeval_sdk.model import Chunk, Evaluation, Record, Usage
from llmeval_sdk.plugins.shared.breaker import BreakerNews
from llmeval_sdk.plugins.shared.redis_client import RedisThread
from llmeval_sdk.plugins.shared.scores import STREAM, SharedGate
from llmeval_sdk.plugins.shared.settings import RedisAddress
from llmeval_sdk.plugins.shared.verdicts import MAX_BYTES, RedisVerdicts
from llmeval_sdk.testing.judge_server import JudgeServer


KEY = VerdictKey(b"0123456789abcdef", lasts=True)
VERDICT = Evaluation("polite", 0.25, label="rude", evaluator_kind="judge", evaluator_version="1")


class Model:
    model = "a-model"
    base_url = "http://judge.example/v1"


@pytest.fixture
def link_of(redis):
    links = []

    def make():
        links.append(RedisThread(RedisAddress(redis.address), beat=0.1))
        links[-1].start()
        return links[-1]

    yield make
    for link in links:
        link.close()


def until(what, seconds=30):
    deadline = time.monotonic() + seconds
    while not (outcome := what()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return outcome


def verdicts_of(link, **options):
    return Verdicts(place=RedisVerdicts(link, **options))


def found(verdicts, key=KEY):
    return asyncio.run(verdicts.find(key))


# -- verdicts ---------------------------------------------------------------------------------


def test_one_host_finds_the_verdict_of_another(link_of):
    """It is marked as cached and costs nothing, as one of the same process is."""
    verdicts_of(link_of()).put(KEY, VERDICT)
    other = verdicts_of(link_of())
    earlier = until(lambda: found(other))
    assert (earlier.value, earlier.label, earlier.usage) == (0.25, "rude", None)
    assert earlier.metadata["cached"] is True


def test_a_verdict_of_a_model_without_an_address_stays_in_its_process(link_of, redis):
    """Only there is it known to be the same model."""
    verdicts_of(link_of()).put(KEY._replace(lasts=False), VERDICT)
    time.sleep(0.3)
    assert redis.client().keys("llmeval.{shared}.verdict.*") == []


def test_shared_verdicts_expire(link_of, redis):
    """Redis keeps them for no longer than it is told, each under one key."""
    verdicts = verdicts_of(link_of(), seconds=1.0)
    for number in range(20):
        verdicts.put(KEY._replace(digest=bytes([number]) * 16), VERDICT)
    names = "llmeval.{shared}.verdict.*"
    until(lambda: verdicts._place._link.counts.snapshot().get("verdicts shared") == 20)
    assert len(redis.client().keys("*")) <= 20
    until(lambda: not redis.client().keys(names))


@pytest.mark.parametrize(
    "planted",
    [
        b"\x80\x04cos\nsystem\n",
        b"[" * 10_000,
        b"{}",
        b"null",
        b'{"name": 7}',
        b"x" * (MAX_BYTES * 2),
    ],
)
def test_what_is_no_verdict_is_none(link_of, redis, planted):
    """Whoever can write to Redis can plant data there, and never code."""
    redis.client().set(f"llmeval.{{shared}}.verdict.{KEY.digest.hex()}", planted)
    verdicts = verdicts_of(link_of())
    assert found(verdicts) is None


# -- breakers ---------------------------------------------------------------------------------


def breaker_of(link, **options):
    breaker = Breaker(Model.model, **options)
    link.join(BreakerNews(breaker, Model(), link))
    return breaker


def probe(breaker):
    """Return the ticket of a probe, if this breaker has it."""
    ticket = breaker.admit()
    return None if isinstance(ticket, Refused) else [ticket]


def test_one_host_finds_the_model_dead_and_one_probes_it_for_all(link_of):
    """The others do not fail on their own before they stop, and do not all try at once."""
    breakers = [breaker_of(link_of(), failures=2, cool_down=2.0) for _ in range(4)]
    for _ in range(2):
        breakers[0].failed(breakers[0].admit())
    until(lambda: all(breaker.state == "open" for breaker in breakers))
    until(lambda: all(breaker.state == "half_open" for breaker in breakers))
    admitted = until(lambda: [(b, got[0]) for b in breakers if (got := probe(b))])
    assert len(admitted) == 1
    prober, ticket = admitted[0]
    prober.succeeded(ticket)
    until(lambda: all(breaker.state == "closed" for breaker in breakers))


def test_without_redis_each_process_has_a_breaker_of_its_own(redis):
    """It opens, probes and closes as one that is not shared."""
    redis.kill()
    link = RedisThread(RedisAddress(redis.address), beat=0.1)
    breaker = breaker_of(link, failures=1, cool_down=0.2)
    breaker.failed(breaker.admit())
    assert isinstance(breaker.admit(), Refused)
    until(lambda: breaker.state == "half_open")
    (ticket,) = until(lambda: probe(breaker))
    breaker.succeeded(ticket)
    assert breaker.state == "closed"
    link.close()


# -- scores -----------------------------------------------------------------------------------


def decide(gate, risk):
    from llmeval_sdk.judges.groundedness import groundedness

    record = Record(request="q", response="a", retrieved_context=(Chunk("c"),), span_name="s")
    scores = {"groundedness_risk": Evaluation("groundedness_risk", risk)}
    return gate.decide(groundedness, record, scores)


def test_scores_are_ranked_among_those_of_all_hosts(link_of):
    """A host that has just begun knows what is risky from the traffic of the others."""
    gates = [
        SharedGate(JudgeGate(escalations=[Escalation("groundedness", share=0.2)]), link_of())
        for _ in range(2)
    ]
    for number in range(40):
        decide(gates[0], number / 40)
    heard = until(
        lambda: (
            (quota := gates[1]._quota(gates[1]._escalations["groundedness"][0], 0, "s"))
            and len(quota._scores("groundedness_risk")) >= 40
        )
    )
    assert heard
    assert "top" in decide(gates[1], 0.99).why


def test_scores_that_are_none_are_left_out(link_of, redis):
    """Garbage in the stream is counted, and the rest is read."""
    link = link_of()
    gate = SharedGate(JudgeGate(escalations=[Escalation("groundedness", share=0.2)]), link)
    for text in (b"no json", b"[[1]]", json.dumps([["groundedness", "s", "r", "NaN-"]]).encode()):
        redis.client().xadd(STREAM, {"by": "x", "scores": text})
    until(lambda: link.counts.snapshot().get("scores not understood", 0) >= 3)
    assert decide(gate, 0.5) is not None


# -- as a user meets it -----------------------------------------------------------------------


APP = """
import time
import llmeval_sdk as llmeval

llmeval.configure(evaluators=["safety"])

@llmeval.workflow
def answer(question):
    return "It was built in 1912."

deadline = time.monotonic() + 60
while not llmeval.stats().judged and time.monotonic() < deadline:
    answer(f"Warm? {time.time_ns()}")
    llmeval.flush(10)
    time.sleep(0.2)
answer("When was it built?")
stats = llmeval.flush(10)
print(stats.judged, dict(stats.not_run), dict(stats.shared))
llmeval.shutdown()
"""


def run_app(folder, address, server, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("LLMEVAL_", "OPENAI_"))}
    return subprocess.run(
        [sys.executable, "-c", APP],
        env={
            **clean,
            "LLMEVAL_STORE": str(folder / "store.db"),
            "LLMEVAL_SHARED": address,
            "LLMEVAL_JUDGE_MODEL": "stand-in",
            "LLMEVAL_JUDGE_BASE_URL": server.base_url,
            "LLMEVAL_JUDGE_API_KEY": "none",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_two_apps_on_two_hosts_share_verdicts_and_budget(tmp_path, redis):
    """The second host gets the verdict of the first, and `doctor` says what both have left."""
    pytest.importorskip("openai", reason="the extra openai IS NOT INSTALLED: no judge can be asked")
    with JudgeServer() as server:
        first = run_app(tmp_path / "one", redis.address, server)
        assert "'safety': 2" in first.stdout, first.stdout + first.stderr
        second = run_app(tmp_path / "two", redis.address, server)
        assert "'cached': 1" in second.stdout, second.stdout + second.stderr
        assert "'verdicts found': 1" in second.stdout
    doctor = subprocess.run(
        [sys.executable, "-m", "llmeval_sdk", "doctor", "--all", "--offline"],
        env={**os.environ, "LLMEVAL_SHARED": redis.address},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "not contacted" in doctor.stdout
    doctor = subprocess.run(
        [sys.executable, "-m", "llmeval_sdk", "doctor", "--all"],
        env={**os.environ, "LLMEVAL_SHARED": redis.address},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "left for this minute, over all hosts" in doctor.stdout, doctor.stdout + doctor.stderr


def test_over_all_hosts_a_limit_in_dollars_that_is_set_needs_a_price(tmp_path, redis):
    """A model of unknown price is refused before Redis is asked, and one with a price is not."""
    budget = Budget(usd_per_day=None, groups=[Budget(usd_per_day=1, per="tag:tenant")])
    limiter = limiter_of(tmp_path, redis.address, budget=budget)
    usage, tags = Usage(10, 10, 20), {"tenant": "acme"}

    async def reserved(model):
        calls = RateLimiter(limiter, concurrency=1, prices={"free": (0, 0)})
        return await calls.reserve("judge", model, usage, tags=tags)

    with pytest.raises(JudgeError) as refused:
        asyncio.run(reserved("unknown"))
    assert refused.value.type == "no_price"
    assert limiter.stats() == {}
    assert asyncio.run(reserved("free")).usd == 0
    limiter.close()


def test_without_the_setting_nothing_of_it_is_loaded():
    """An app on one host never loads the client of Redis."""
    program = (
        "import llmeval_sdk as l, sys; l.configure(); l.flush(1); print('redis' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_a_missing_client_is_said_and_no_judge_pays(tmp_path):
    """Where the budget cannot be shared, each host with a budget of its own would spend too much."""
    program = """
import sys
sys.modules["redis"] = None
import llmeval_sdk as llmeval
from llmeval_sdk.errors import ConfigurationError
with llmeval.workflow("w", request="q") as span:
    span.response = "a"
stats = llmeval.flush(10)
print(stats.judged, dict(stats.not_run))
try:
    llmeval.configure(shared="redis://localhost:1")
except ConfigurationError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "LLMEVAL_STORE": str(tmp_path / "s.db"),
            "LLMEVAL_SHARED": "redis://localhost:1",
            "LLMEVAL_EVALUATORS": "safety",
            "LLMEVAL_JUDGE_MODEL": "stand-in",
            "LLMEVAL_JUDGE_BASE_URL": "http://127.0.0.1:1/v1",
        },
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "pip install 'llmeval-inprocess[fleet]'" in done.stdout, done.stderr
    assert "'safety': {'over_budget': 1}" in done.stdout, done.stdout + done.stderr
