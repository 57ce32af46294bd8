"""A worker's side of one message: each judgement is made and paid for once, and none takes others along."""

import sys
import threading
import time
from types import SimpleNamespace

import pytest
from doubles import Exporter, Hanging
from fleet_parts import KEY, account, until

import llmeval_sdk as llmeval
from llmeval_sdk.config import Secret
from llmeval_sdk.evaluation.admission import Admitted
from llmeval_sdk.model import Record, Target
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.pipeline.judging import Job
from llmeval_sdk.plugins.fleet import _judgement_store, _worker, settings
from llmeval_sdk.plugins.fleet import _message as _message_module
from llmeval_sdk.plugins.fleet._judgement_store import JUDGEMENT
from llmeval_sdk.plugins.fleet._message import (
    TASK,
    body_of,
    judgement_id,
    judgement_text,
    signature,
)
from llmeval_sdk.plugins.fleet._worker import GiveBackError, wait_for_budget
from llmeval_sdk.plugins.fleet.serving import add_task, make_app


@pytest.fixture
def worker(broker, monkeypatch):
    """Make this process a worker with some judges; it returns what answers messages."""
    monkeypatch.setattr(settings, "_answers_here", True)
    monkeypatch.setenv("LLMEVAL_SHARED", "")

    def configured(*judges, exporter=None, **options):
        llmeval.configure(
            evaluators=list(judges), escalations=[], exporters=[exporter or Exporter()],
            llm=lambda *_: "yes", judge_queue=broker.address, fleet_key=KEY, **options,
        )  # fmt: skip
        pipeline = runtime.pipeline()
        assert pipeline.start()
        return pipeline.work().worker.judging

    yield configured
    llmeval.shutdown(1.0)


def _message(*names, host=None, tenants=()):
    """Return a message that asks these judges about one span each, and its signature."""
    tags = [{"tenant": tenant} for tenant in tenants] or [{}] * len(names)
    jobs = [
        Job(
            SimpleNamespace(name=name),
            Record(request="What?", response=f"Slate {number}.", tags=tags[number]),
            Target("1" * 32, f"{number:016x}", "answer", "workflow"),
            Admitted(1.0, "asked", escalated=False),
        )
        for number, name in enumerate(names)
    ]
    ids = [judgement_id(job.judge.name, job.target) for job in jobs]
    body = body_of(list(map(judgement_text, jobs, ids)), ids, host=host)
    return body, signature(body, Secret(KEY))


def test_the_name_of_a_judge_imports_nothing(worker, broker, monkeypatch):
    """Whoever may sign a message still cannot have a worker load a module of their choice."""
    monkeypatch.delitem(sys.modules, "ftplib", raising=False)
    worker().answer(*_message("ftplib:FTP"))
    assert dict(account(broker).refused) == {"unknown_judge": 1}
    assert "ftplib" not in sys.modules


def test_a_configured_judge_may_have_a_colon_in_its_name(worker, broker):
    """It is found among the judges that this process configured."""

    @llmeval.judge
    def polite(record, llm):
        return True

    polite.name = "mine:polite"
    worker(polite).answer(*_message("mine:polite"))
    assert account(broker).judged == 1


def test_a_message_that_two_slots_have_is_paid_for_and_emitted_once(worker, broker):
    """It may be delivered again while a slot of the same process still works on it."""
    may_end, calls, claims = threading.Event(), [], []

    @llmeval.judge
    def slow(record, llm):
        calls.append(record)
        may_end.wait(20)
        return True

    exporter = Exporter()
    judging = worker(slow, exporter=exporter)
    claim = judging.claim
    judging.claim = lambda *arguments: claims.append(arguments) or claim(*arguments)
    message = _message("slow")
    slots = [threading.Thread(target=judging.answer, args=message) for _ in range(2)]
    for slot in slots:
        slot.start()
    until(lambda: len(claims) > 2 or len(calls) > 1, "a slot that looks again")
    may_end.set()
    for slot in slots:
        slot.join(30)
    assert (len(calls), len(exporter.evaluations)) == (1, 1)
    assert account(broker).judged == 1


def test_a_worker_keeps_to_the_budget_of_the_tenant_that_it_judges(worker, broker):
    """The tags of a span come with the message."""

    @llmeval.judge
    async def polite(record, llm):
        return bool(await llm.complete([llmeval.Message("user", "Is it polite?")]))

    each = llmeval.Budget(calls_per_minute=2, per="tag:tenant")
    worker(polite, budget=llmeval.Budget(groups=[each])).answer(
        *_message(*["polite"] * 5, tenants=["acme"] * 4 + ["globex"])
    )
    now = account(broker)
    assert (now.judged, dict(now.refused)) == (3, {"over_budget": 2})


def test_a_worker_asks_no_model_of_unknown_price_where_dollars_are_limited(worker, broker):
    """By its own settings: the queue knows no prices, so the worker says `no_price`."""

    @llmeval.judge
    async def polite(record, llm):
        return bool(await llm.complete([llmeval.Message("user", "Is it polite?")]))

    each = llmeval.Budget(usd_per_day=1, per="tag:tenant")
    budget = llmeval.Budget(usd_per_day=None, groups=[each])
    worker(polite, budget=budget).answer(*_message("polite", tenants=["acme"]))
    now = account(broker)
    assert (now.judged, dict(now.refused)) == (0, {"no_price": 1})


def test_one_verdict_that_cannot_be_written_costs_only_itself(worker, broker):
    """The judgements beside it have their verdicts, and it is counted with its reason."""

    @llmeval.judge
    def endless(record, llm):
        return llmeval.Evaluation("endless", True, metadata={"digits": 10**5000})

    @llmeval.judge
    def polite(record, llm):
        return True

    worker(endless, polite).answer(*_message("endless", "polite", "polite"))
    now = account(broker)
    assert (now.judged, dict(now.refused), now.waiting) == (2, {"error": 1}, 0)


def test_a_message_at_which_the_worker_fails_goes_back(broker):
    """Celery throws away what its task raised at; its judgements would wait for hours."""
    from celery.exceptions import Reject

    def fails(body, signed):
        raise ValueError

    app = make_app(
        Secret(broker.address), visibility=1.0, check=bytes.decode, check_note=bytes.decode
    )
    add_task(app, fails)
    with pytest.raises(Reject) as rejected:
        app.tasks[TASK]("body", "signed")
    assert rejected.value.requeue


def test_a_budget_that_cannot_be_given_back_costs_no_message():
    """What was reserved only to see whether there is room runs out by itself."""

    class Broken:
        def reserve(self, name, calls):
            return object()

        def confirm_now(self, reserved):
            return None

        def release(self, reserved):
            raise RuntimeError

    wait_for_budget(Broken(), 1.0)


def test_a_verdict_is_sent_when_exporters_have_it(worker, broker, monkeypatch):
    """Until then its message goes back to the queue, and this process emits it no second time."""
    monkeypatch.setattr(_worker, "DELIVERY_SECONDS", 0.2)
    monkeypatch.setattr(_judgement_store, "HOLD_SECONDS", 0.2)

    @llmeval.judge
    def polite(record, llm):
        return True

    exporter = Hanging()
    judging = worker(polite, exporter=exporter)
    message = _message("polite", "polite")
    for _ in range(2):
        with pytest.raises(GiveBackError, match="exporters"):
            judging.answer(*message)
    keys = broker.client().keys(f"{JUDGEMENT}*")
    assert [broker.client().hget(key, "sent") for key in keys] == [None, None]
    exporter.release.set()
    until(lambda: len(exporter.evaluations) == 2, "two verdicts")
    judging.answer(*message)
    assert len(exporter.evaluations) == 2
    assert [broker.client().hget(key, "sent") for key in keys] == [b"1", b"1"]


def test_a_message_that_is_played_again_is_paid_for_once(worker, broker):
    """While its verdict is remembered that is attached; later the time that was signed is too old."""
    calls = []

    @llmeval.judge
    def polite(record, llm):
        calls.append(record)
        return True

    judging = worker(polite)
    body, signed = _message("polite")
    store = judging._store = _judgement_store.JudgementStore(broker.client(), expiry=1.0)
    store.put("message", [judgement_id("polite", Target("1" * 32, f"{0:016x}"))])
    for _ in range(2):
        judging.answer(body, signed)
    assert account(broker).messages == {}
    until(lambda: not broker.client().keys(f"{JUDGEMENT}*"), "a verdict that is forgotten")
    judging.answer(body, signed)
    now = account(broker)
    assert len(calls) == 1
    assert (now.asked, now.judged, now.messages) == (1, 1, {"replayed": 1})


def test_a_message_from_a_later_time_is_not_paid_for(worker, broker, monkeypatch):
    """Else whoever keeps it could have it judged again until then."""
    monkeypatch.setattr(_message_module, "time", lambda: time.time() + 3600)
    message = _message("groundedness")
    worker().answer(*message)
    assert account(broker).messages == {"replayed": 1}
    assert account(broker).asked == 0
