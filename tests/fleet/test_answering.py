"""A worker's side of one message: each judgement is made and paid for once, and none takes others along."""

import sys
from types import SimpleNamespace

import pytest
from doubles import Exporter
from fleet_parts import KEY, account

import llmeval_sdk as llmeval
from llmeval_sdk import runtime
from llmeval_sdk.config import Secret
from llmeval_sdk.fleet import roles
from llmeval_sdk.fleet._message import body_of, judgement_id, judgement_text, signature
from llmeval_sdk.model import Record, Target
from llmeval_sdk.pipeline._turns import Job
from llmeval_sdk.policy.admission import Admitted


@pytest.fixture
def worker(broker, monkeypatch):
    """Make this process a worker with some judges; it returns what answers messages."""
    monkeypatch.setattr(roles, "_answers_here", True)
    monkeypatch.setenv("LLMEVAL_SHARED", "")

    def configured(*judges, exporter=None, **options):
        llmeval.configure(
            evaluators=list(judges), escalations=[], exporters=[exporter or Exporter()],
            judge_model=lambda *_: "yes", judge_queue=broker.address, fleet_key=KEY, **options,
        )  # fmt: skip
        pipeline = runtime.pipeline()
        assert pipeline.start()
        return pipeline._worker.judging

    yield configured
    llmeval.shutdown(1.0)


def _message(*names, host=None):
    """Return a message that asks these judges about one span each, and its signature."""
    jobs = [
        Job(
            SimpleNamespace(name=name),
            Record(request="What?", response=f"Slate {number}."),
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
