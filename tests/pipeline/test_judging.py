"""From a cheap score to a paid judge: who runs, who does not and why, and never on the app's side."""

import asyncio
import subprocess
import sys
import threading

import pytest
from services import eventually

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.errors import JudgeError
from llmeval_sdk.pipeline import judging
from llmeval_sdk.process.threads import MAX_ABANDONED
from llmeval_sdk.testing import FakeLLM, capture


@pytest.fixture(autouse=True)
def _forget_judges():
    before = set(registry._own)
    yield
    for name in set(registry._own) - before:
        registry.forget(name)


def extract(contributing=1, chunks=5, **annotations):
    """One extraction request whose recall is contributing / chunks."""
    with llmeval.workflow("extract_field", request="roof type") as span:
        span.annotate(
            retrieved_context=[
                {"content": f"chunk {n}", "chunk_id": str(n)} for n in range(chunks)
            ],
            extractions=[{"value": "slate", "chunk_number": n + 1} for n in range(contributing)],
            value="slate",
            **annotations,
        )


RECALL = {"rationale": "most of it is there", "score": 0.8}


def test_low_recall_asks_the_judge():
    """A recall below 0.7 is escalated; its verdict lands on the span, with the chance it had."""
    with capture(llm=FakeLLM(RECALL)) as seen:
        extract(contributing=1)
        seen.drain()
    verdict = seen.scores("extract_field")["context_recall_llm"]
    assert verdict.value == 0.8
    assert verdict.inclusion_probability == 1.0
    assert verdict.evaluator_kind == "judge"
    assert "context_recall_heuristic 0.20 < 0.7" in verdict.metadata["why"]
    assert verdict.usage.total_tokens > 0


def test_good_recall_does_not():
    """At 0.7 and above, without a limit hit, nobody is asked."""
    llm = FakeLLM(RECALL)
    with capture(llm=llm) as seen:
        extract(contributing=4)
        seen.drain()
    assert seen.reasons() == {"context_recall_llm": "not_escalated"}
    assert llm.calls == []


def test_a_hit_limit_asks_the_judge_although_recall_is_good():
    """A retriever that returned all it may is escalated as well."""
    with capture(llm=FakeLLM(RECALL)) as seen:
        with llmeval.workflow("w", request="roof") as span:
            span.annotate(
                retrieved_context=[{"content": "c", "chunk_id": "1", "retrieval_method": "bm25"}],
                extractions=[{"value": "slate", "chunk_number": 1}],
                retrieval={"limits": {"bm25": 1}},
                value="slate",
            )
        seen.drain()
    scores = seen.scores("w")
    assert scores["context_recall_heuristic"].value == 0.7
    assert scores["context_recall_llm"].value == 0.8


def test_the_threshold_is_a_setting():
    """LLMEVAL_RECALL_THRESHOLD moves the default rule."""
    with capture(llm=FakeLLM(RECALL), recall_threshold=0.1) as seen:
        extract(contributing=1)
        seen.drain()
    assert seen.reasons() == {"context_recall_llm": "not_escalated"}


def test_a_key_alone_spends_nothing(monkeypatch):
    """With only OPENAI_API_KEY set, the escalation is counted as no_judge_model."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with capture() as seen:
        extract(contributing=1)
        result = seen.drain()
    assert seen.reasons() == {"context_recall_llm": "no_judge_model"}
    assert result.not_run == {"context_recall_llm": {"no_judge_model": 1}}


def test_a_model_without_its_library_is_not_installed(monkeypatch):
    """A judge model is named and its client is missing: the reason and the detail say so."""
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with capture(judge_model="gpt-4o") as seen:
        extract(contributing=1)
        seen.drain()
    (refusal,) = seen.not_run
    assert refusal.reason == "not_installed"
    assert "pip install 'llmeval-inprocess[openai]'" in refusal.detail


def test_sampling_rules_apply_to_escalated_judges_too():
    """A catch-all rate of 0 switches the judge off; the reason says which rate."""
    llm = FakeLLM(RECALL)
    with capture(llm=llm, sampling_rules=[llmeval.SamplingRule(0)]) as seen:
        extract(contributing=1)
        seen.drain()
    assert seen.reasons() == {"context_recall_llm": "not_sampled"}
    assert llm.calls == []


def test_datadogs_variables_configure_the_rules(monkeypatch):
    """DD_LLMOBS_EVALUATOR_SAMPLING_RULES is read as it is; broken JSON switches judges off."""
    monkeypatch.setenv(
        "DD_LLMOBS_EVALUATOR_SAMPLING_RULES",
        '[{"sample_rate": 1, "evaluator_label": "context_recall_llm", "span_name": "extract_field"}, {"sample_rate": 0}]',
    )
    with capture(llm=FakeLLM(RECALL)) as seen:
        extract(contributing=1)
        seen.drain()
        assert "context_recall_llm" in seen.scores()
    monkeypatch.setenv("DD_LLMOBS_EVALUATOR_SAMPLING_RULES", "[{broken")
    with capture(llm=FakeLLM(RECALL)) as seen:
        extract(contributing=1)
        seen.drain()
    assert seen.reasons() == {"context_recall_llm": "not_sampled"}


def test_half_the_traces_are_judged_and_say_so():
    """A sampling rate is kept, and stands with each verdict as its inclusion probability."""

    @llmeval.judge
    def cheap(record, llm):
        return True

    with capture(
        evaluators=[cheap], sampling_rules=[llmeval.SamplingRule(0.5, evaluator="cheap")]
    ) as seen:
        for _ in range(300):
            with llmeval.workflow("w", request="q"):
                pass
        seen.drain()
    verdicts = [e.evaluation for e in seen.evaluations if e.evaluation.name == "cheap"]
    assert 90 < len(verdicts) < 210
    assert {verdict.inclusion_probability for verdict in verdicts} == {0.5}
    refused = [n.reason for n in seen.not_run if n.evaluator == "cheap" and n.reason != "cached"]
    assert refused == ["not_sampled"] * (300 - len(verdicts))


def test_every_judge_has_an_outcome():
    """Scored, failed or refused with a reason: the sum is what was asked."""
    replies = iter([RECALL, "nonsense", JudgeError("unavailable"), RECALL])
    with capture(llm=FakeLLM(lambda _: reply_or_raise(next(replies))), judge_concurrency=1) as seen:
        for n in range(4):
            extract(contributing=1, field_config={"name": f"field {n}"})
        result = seen.drain()
    asked = sum(1 for span in seen.spans if span.name == "extract_field")
    judged = result.judged.get("context_recall_llm", 0)
    assert asked == 4 == judged + sum(result.not_run["context_recall_llm"].values())
    failed = [e.evaluation for e in seen.evaluations if e.evaluation.error]
    assert {e.error.type for e in failed} == {"malformed", "unavailable"}
    assert all(e.value is None for e in failed)


def reply_or_raise(reply):
    if isinstance(reply, Exception):
        raise reply
    return reply


def test_a_hanging_judge_times_out_and_keeps_nobody():
    """A judge that never returns is abandoned at its timeout, and the others go on."""

    @llmeval.judge
    def hangs(record, llm):
        threading.Event().wait()

    @llmeval.judge
    def quick(record, llm):
        return True

    with capture(evaluators=[hangs, quick], judge_timeout=0.2) as seen:
        with llmeval.workflow("w", request="q"):
            pass
        seen.drain()
    assert seen.scores("w")["quick"].value == "yes"
    assert seen.scores("w")["hangs"].error.type == "timeout"
    assert seen.reasons()["hangs"] == "timeout"


def test_pending_judges_do_not_keep_the_process_but_are_counted(until):
    """At shutdown, what still waits is cancelled and counted as shutdown."""

    @llmeval.judge
    async def slow(record, llm):
        await asyncio.Event().wait()

    with capture(evaluators=[slow]) as seen:
        for _ in range(3):
            with llmeval.workflow("w", request="q"):
                pass
        until(lambda: llmeval.stats().pending_judgements == 3, 60)
        result = llmeval.shutdown(0.5)
    assert not result.complete
    assert result.not_run["slow"]["shutdown"] == 3
    assert len([n for n in seen.not_run if n.reason == "shutdown"]) == 3


def test_a_judge_that_calls_evaluated_code_runs_once():
    """What a judge calls is neither traced nor judged again, in sync and async judges."""
    runs = []

    @llmeval.workflow
    def helper(question):
        return question

    @llmeval.judge
    def recursive(record, llm):
        runs.append("sync")
        helper("again")
        return True

    @llmeval.judge
    async def recursive_async(record, llm):
        runs.append("async")
        helper("again")
        return True

    with capture(evaluators=[recursive, recursive_async]) as seen:
        helper("first")
        seen.drain()
        seen.drain()
    assert sorted(runs) == ["async", "sync"]
    assert [span.request for span in seen.spans if span.name == "helper"] == ["first"]


def test_judges_never_run_on_the_apps_threads_or_loop():
    """A judge that blocks does so until the app's event loop, which it leaves alone, frees it."""
    threads, begun, over = [], threading.Event(), threading.Event()

    @llmeval.judge
    def blocking(record, llm):
        threads.append(threading.current_thread().name)
        begun.set()  # from here on it blocks, as a careless judge does
        return over.wait(60)

    @llmeval.workflow
    async def answer(question):
        return question

    async def main():
        await answer("q")
        await asyncio.to_thread(begun.wait, 60)
        for _ in range(100):
            await asyncio.sleep(0)
        over.set()

    with capture(evaluators=[blocking]) as seen:
        asyncio.run(main())
        seen.drain()
        assert seen.scores("answer")["blocking"].value == "yes"
    assert all(name.startswith("llmeval") for name in threads)


def test_each_run_is_a_trace_of_its_own_with_one_link():
    """A judge's run carries tokens and model and links to the span it judged."""
    with capture(llm=FakeLLM(RECALL)) as seen:
        extract(contributing=1)
        seen.drain()
    run, judged = seen.span("context_recall_llm"), seen.span("extract_field")
    assert run.trace_id != judged.trace_id
    assert [(link.trace_id, link.span_id) for link in run.links] == [
        (judged.trace_id, judged.span_id)
    ]
    assert run.usage.total_tokens > 0
    assert run.model_name == "fake"


_WHILE_THE_CLOCK_IS_SET_BACK = """
import time
late, now_ns = [0], time.time_ns
time.time_ns = lambda: now_ns() - late[0] * 10**9
import llmeval_sdk as llmeval
from llmeval_sdk.testing import FakeLLM, capture

class Slow(FakeLLM):
    async def complete(self, *args, **options):
        late[0] = 10_800
        return await super().complete(*args, **options)

with capture(llm=Slow({"rationale": "r", "rating": "yes"}), evaluators=["relevance_to_query"]) as seen:
    with llmeval.workflow("w", request="roof") as span:
        span.response = "slate"
    seen.drain()
run = [span for span in seen.spans if span.tags.get("llmeval.judge")]
assert {span.kind for span in run} == {"workflow", "llm"}, run
root = min(run, key=lambda span: span.kind == "llm")
assert all(root.start_ns <= span.start_ns <= span.end_ns <= root.end_ns for span in run), run
"""


def test_spans_of_judges_end_after_they_begin_whatever_the_clock_does():
    """A wall clock that is set back by three hours during a judgement is in no duration."""
    done = subprocess.run(
        [sys.executable, "-c", _WHILE_THE_CLOCK_IS_SET_BACK], capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr


def test_an_identical_judgement_is_not_paid_twice():
    """The same question a moment later gets the cached verdict, which says so."""
    llm = FakeLLM(RECALL)
    with capture(llm=llm) as seen:
        extract(contributing=1)
        seen.drain()
        extract(contributing=1)
        seen.drain()
    assert len(llm.calls) == 1
    assert seen.reasons() == {"context_recall_llm": "cached"}
    assert seen.scores()["context_recall_llm"].value == 0.8


def test_the_budget_holds():
    """Beyond the calls a minute, judges are counted as over_budget and nothing is called."""
    llm = FakeLLM(RECALL)
    with capture(llm=llm, budget=llmeval.Budget(calls_per_minute=3)) as seen:
        for n in range(10):
            extract(contributing=1, field_config={"name": f"field {n}"})
        result = seen.drain()
    assert len(llm.calls) == 3
    assert result.not_run["context_recall_llm"] == {"over_budget": 7}


def test_a_dead_model_opens_the_circuit():
    """After repeated failures the model is left alone, and judges say circuit_open."""
    llm = FakeLLM(JudgeError("unavailable"))
    with capture(llm=llm, judge_concurrency=1) as seen:
        for n in range(30):
            extract(contributing=1, field_config={"name": f"field {n}"})
        result = seen.drain()
    reasons = result.not_run["context_recall_llm"]
    assert reasons["circuit_open"] > 10
    assert len(llm.calls) + reasons["circuit_open"] == 30


def test_judges_named_on_a_span_run_there_only():
    """workflow(evaluators=[...]) adds to that function's spans."""

    @llmeval.judge
    def polite(record, llm):
        return True

    @llmeval.workflow(evaluators=["polite"])
    def one(question):
        return question

    @llmeval.workflow
    def other(question):
        return question

    with capture() as seen:
        one("q")
        other("q")
        seen.drain()
    assert "polite" in seen.scores("one")
    assert "polite" not in seen.scores("other")


def test_an_escalation_of_ones_own():
    """Conditions compose, and a control sample runs beside them."""
    asked = []

    @llmeval.judge
    def careful(record, llm):
        asked.append(record.span_id)
        return True

    @llmeval.heuristic
    def length(record):
        return float(len(record.response or ""))

    rule = llmeval.Escalation(
        "careful",
        when=llmeval.above("length", 5) & ~llmeval.flagged("agreement_pattern", "unanimous"),
    )
    with capture(evaluators=[length], escalations=[rule]) as seen:
        for text in ("short", "a long answer"):
            with llmeval.workflow("w", request="q") as span:
                span.response = text
        seen.drain()
    assert len(asked) == 1
    assert [n.reason for n in seen.not_run if n.evaluator == "careful"] == ["not_escalated"]


def test_when_too_many_wait_the_escalated_go_first(monkeypatch):
    """A full queue turns away a judgement that nothing asked for, not one that a score asked for."""
    monkeypatch.setattr(judging, "MAX_WAITING", 4)
    begun, go_on, judged = threading.Event(), threading.Event(), []

    @llmeval.judge
    async def routine(record, llm):
        begun.set()
        await asyncio.to_thread(go_on.wait, 30)
        judged.append(("routine", record.request))
        return True

    @llmeval.judge
    async def suspicious(record, llm):
        judged.append(("suspicious", record.request))
        return True

    @llmeval.heuristic
    def length(record):
        return float(len(record.response))

    rule = llmeval.Escalation(suspicious, when=llmeval.above("length", 5))
    with capture(evaluators=[routine, length], escalations=[rule], judge_concurrency=1) as seen:

        def request(number, response="short"):
            with llmeval.workflow("w", request=number) as span:
                span.response = response

        request("0")
        assert begun.wait(10)
        for number in range(1, 6):
            request(f"{number}")
        request("6", "a long answer")
        eventually(lambda: llmeval.stats().not_run.get("routine", {}).get("queue_full") == 4)
        go_on.set()
        seen.drain()
    assert judged[:2] == [("routine", "0"), ("suspicious", "6")]
    assert [request for name, request in judged if name == "routine"] == ["0", "1", "2"]


def test_judges_that_hang_keep_a_bounded_number_of_threads():
    """The place of one that timed out is free again; with three such threads no more are begun."""
    over, stuck = threading.Event(), []

    @llmeval.judge
    def hangs(record, llm):
        stuck.append(threading.current_thread())
        over.wait(60)

    try:
        with capture(evaluators=[hangs], judge_timeout=0.01, judge_concurrency=8) as seen:
            for _ in range(150):
                with llmeval.workflow("w", request="q"):
                    pass
            seen.drain()
            assert MAX_ABANDONED <= len(set(stuck)) < MAX_ABANDONED + 8
            assert llmeval.stats().not_run["hangs"] == {"timeout": 150}
    finally:
        over.set()


def test_the_default_rule_says_nothing_of_requests_without_extractions():
    """Nobody asked the judge of extractions about a chat, so there is nothing to report of it."""
    with capture(llm=FakeLLM({"rationale": "said so", "rating": "yes"})) as seen:
        with llmeval.workflow("chat", request="Where is the roof?") as span:
            span.retrieved_context, span.response = ["The roof is up there."], "Up there."
        assert seen.drain().not_run == {}
