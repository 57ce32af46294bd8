"""What `flush` waits for, what it says of the rest, and how it ends."""

import signal
import subprocess
import sys
import threading

import pytest
from services import eventually

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.testing import capture


VERDICT = '{"rationale": "It is.", "rating": "yes"}'


@pytest.fixture
def gated():
    """Return a judge that answers once its gate is open, and the gate."""
    gate = threading.Event()

    def ask(prompt):
        gate.wait(60)
        return VERDICT

    yield llmeval.LLMJudge("polite", "Is the answer polite?\n\n{response}"), ask, gate
    gate.set()
    registry.forget("polite")


def answer():
    with llmeval.workflow("answer", request="What is the roof made of?") as span:
        span.response = "Slate."


@pytest.mark.parametrize("timeout", [None, float("inf")])
def test_without_a_limit_it_waits_until_nothing_is_pending(gated, timeout):
    """However long the judges take, it ends when the last verdict is delivered, and not before."""
    judge, ask, gate = gated
    with capture(evaluators=[judge], llm=ask, escalations=[]) as seen:
        for _ in range(20):
            answer()
        outcome = []
        waiting = threading.Thread(target=lambda: outcome.append(llmeval.flush(timeout)))
        waiting.start()
        eventually(lambda: llmeval.stats().pending_judgements == 20)
        assert not outcome
        gate.set()
        waiting.join(60)
        assert outcome[0].complete
        assert outcome[0].judged == {"polite": 20}
        assert len(seen.evaluations) >= 20


def test_a_judge_that_never_answers_ends_it_all_the_same(gated):
    """Each judgement has its time; what is not judged by then is counted, and nothing is pending."""
    judge, ask, _ = gated
    with capture(evaluators=[judge], llm=ask, escalations=[], judge_timeout=0.2):
        answer()
        result = llmeval.flush(None)
        assert result.complete
        assert result.not_run == {"polite": {"timeout": 1}}


def test_judgements_that_do_not_end_are_given_up(gated, monkeypatch):
    """If none of them ends for a while, there is nothing to wait for."""
    from llmeval_sdk.pipeline import pipeline

    monkeypatch.setattr(pipeline, "PATIENCE", 0.005)
    judge, ask, gate = gated
    with capture(evaluators=[judge], llm=ask, escalations=[], judge_timeout=60):
        answer()
        result = llmeval.flush(None)
        assert (result.complete, result.pending_judgements) == (False, 1)
        gate.set()
        assert llmeval.flush(None).complete


def test_what_it_leaves_is_said_with_the_time_that_it_may_take(gated, caplog):
    """The line names judgements and records, and what waits for them."""
    judge, ask, gate = gated
    with capture(evaluators=[judge], llm=ask, escalations=[], judge_timeout=30):
        for _ in range(9):
            answer()
        assert not llmeval.flush(0.1).complete
        eventually(lambda: llmeval.stats().pending_judgements == 9)
        assert not llmeval.flush(0.1).complete
        gate.set()
        llmeval.flush(None)
    (said,) = [line for line in caplog.messages if line.startswith("flush:")]
    assert "9 judgements (up to 60 s)" in said
    assert "flush(timeout=None) waits for that" in said


def test_what_it_has_finished_is_not_spoken_of(caplog):
    """Nothing is said where everything was done."""
    with capture():
        answer()
        assert llmeval.flush().complete
        assert llmeval.flush(0.0) is not None
    assert not [line for line in caplog.messages if line.startswith("flush:")]


@pytest.mark.parametrize("timeout", ["soon", [], object()])
def test_what_is_no_time_to_wait_stands_for_the_default(timeout):
    """It never raises into the app: the mistake is counted."""
    with capture(raise_again=False):
        answer()
        before = llmeval.stats().problems.get("timeout=", 0)
        assert llmeval.flush(timeout).complete
        assert llmeval.stats().problems["timeout="] == before + 1


def test_a_time_that_has_passed_is_no_time(gated):
    """What is left of a deadline may be negative, and is then not the default."""
    judge, ask, _ = gated
    with capture(evaluators=[judge], llm=ask, escalations=[]):
        answer()
        eventually(lambda: llmeval.flush(-1).pending_judgements == 1)
        assert not llmeval.flush(-1).complete


INTERRUPTED = """
import sys, threading
import llmeval_sdk as llmeval
gate = threading.Event()
def ask(prompt):
    print("asked", flush=True)
    gate.wait(100)
    return "yes"
llmeval.configure(exporters=["memory"], llm=ask, escalations=[], judge_timeout=50,
    evaluators=[llmeval.LLMJudge("polite", "Is it polite?\\n\\n{response}")])
with llmeval.workflow("answer", request="Which roof?") as span:
    span.response = "Slate."
try:
    llmeval.flush(timeout=None)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_it():
    """Whoever waits at a terminal can stop waiting."""
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "asked\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (out, process.returncode) == ("interrupted\n", 0), err
