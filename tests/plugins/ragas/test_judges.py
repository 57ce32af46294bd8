"""What can be said of Ragas' judges without Ragas."""

import sys

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import config, registry, testing
from llmeval_sdk.errors import ConfigurationError, JudgeError
from llmeval_sdk.judges import BaseJudge
from llmeval_sdk.model import Chunk, ModelCall, Record, Usage
from llmeval_sdk.plugins.ragas import _judge, runner
from llmeval_sdk.plugins.ragas._judge import columns_of


FULL = Record(
    request={"messages": [{"role": "user", "content": "why"}]},
    response="because",
    retrieved_context=(Chunk("one"), Chunk(doc_uri="no text"), Chunk("two")),
    expected_facts=("a", "b"),
    expected_retrieved_context=(Chunk("three", doc_uri="x"),),
)


def test_the_three_of_the_guide_are_known_by_their_names():
    """They look at llm spans first; answer relevancy does without contexts."""
    for name in ("ragas_faithfulness", "ragas_answer_relevancy", "ragas_context_precision"):
        judge = registry.evaluator(name)
        assert (judge.name, judge.kind, judge.span_kinds) == (name, "judge", ("llm",))
    assert registry.evaluator("ragas_answer_relevancy").needs == ("request", "response")


@pytest.mark.parametrize("name", _judge.VARIANTS)
def test_every_metric_of_ragas_needs_fields_of_a_record(name):
    """Its columns are checked before anything is spent."""
    judge = registry.evaluator(f"ragas:{name}")
    assert judge.name == f"ragas:{name}"
    for need in judge.needs:
        assert all(hasattr(Record(), field.partition(".")[0]) for field in need.split("|"))


def test_an_unknown_metric_is_told_with_the_nearest_name():
    """A typing mistake is loud at configure()."""
    with pytest.raises(ConfigurationError, match="did you mean 'factual_correctness'"):
        llmeval.configure(evaluators=["ragas:factual_corectness"])


def test_columns_are_what_the_record_has():
    """A chat request becomes its question, chunks their texts, facts one reference."""
    assert columns_of(FULL) == {
        "user_input": "why",
        "response": "because",
        "retrieved_contexts": ["one", "two"],
        "reference": "a\nb",
        "reference_contexts": ["three"],
    }
    assert columns_of(Record(response="x", retrieved_context=())) == {
        "response": "x",
        "retrieved_contexts": [],
    }


def test_a_missing_column_is_named():
    """It is not applicable, no error and no call."""
    with testing.capture(evaluators=["ragas:context_recall"], escalations=[]) as seen:

        @llmeval.workflow
        def flow(question):
            return "a"

        flow("q")
        seen.drain()
    assert seen.not_run[0].reason == "missing_inputs"
    assert seen.not_run[0].detail == (
        "the record has no expected_response|expected_facts, retrieved_context"
    )


def test_no_context_at_all_is_nothing_to_be_precise_about():
    """Precision of zero contexts is no number; nothing is asked."""
    import asyncio

    judge = registry.evaluator("ragas_context_precision")
    record = Record(request="q", response="a", retrieved_context=())
    found = asyncio.run(judge.evaluate(record, testing.FakeLLM()))
    assert (found.value, found.error) == (None, None)
    assert found.metadata["missing_inputs"] == "contexts with text"


def settings(**given):
    return config.from_environment({}, problems=[], **given)


def test_where_it_runs():
    """A child by default; a thread where it was asked for, or where only this process can."""
    address = {"model": "m"}
    where = runner.in_thread
    assert where("faithfulness", address, settings()) is ("ragas" in sys.modules)
    assert where("faithfulness", address, settings(judge_worker="thread")) is True
    assert where("faithfulness", None, settings()) is True
    assert where(object(), address, settings(judge_worker="process")) is True
    assert where("faithfulness", address, settings(judge_worker="process")) is False


def test_it_runs_on_a_thread_when_the_app_has_imported_ragas(monkeypatch):
    """The app's own changes to Ragas apply then; another interpreter has its own Ragas."""
    monkeypatch.setitem(sys.modules, "ragas", sys)
    assert runner.in_thread("faithfulness", {"model": "m"}, settings()) is True
    elsewhere = settings(ragas_python="/x/bin/python")
    assert runner.in_thread("faithfulness", {"model": "m"}, elsewhere) is False


def test_another_interpreter_gets_none_of_the_apps_packages(monkeypatch, tmp_path):
    """Only our core; with a set-up function also the app's own folders, never site-packages."""
    monkeypatch.syspath_prepend(str(tmp_path))
    assert runner.spec_of(settings(ragas_python="/x/bin/python")).paths == ()
    named = settings(ragas_python="/x/bin/python", ragas_setup="mine:change")
    paths = runner.spec_of(named).paths
    assert str(tmp_path) in paths
    assert not [path for path in paths if "site-packages" in path or path.startswith(sys.prefix)]


def test_no_ragas_anywhere_is_one_clear_line_and_a_counted_reason(monkeypatch, tmp_path):
    """Doctor says what to do; online the judge is counted as not run, and nothing else happens."""
    monkeypatch.setattr(runner, "find_spec", lambda name: None)
    monkeypatch.setattr(runner, "default_home", lambda: tmp_path)
    assert "llmeval ragas setup" in runner.problem(settings())
    assert runner._where(settings())[:2] == (False, "Ragas")
    with (
        pytest.raises(JudgeError) as error,
    ):
        runner.spec_of(settings())
    assert error.value.type == "not_installed"
    with testing.capture(
        evaluators=["ragas_faithfulness"], escalations=[], judge_worker="process", llm="m",
        judge_base_url="http://127.0.0.1:9/v1",
    ) as seen:  # fmt: skip

        @llmeval.workflow
        def flow(question):
            llmeval.annotate(retrieved_context=["c"])
            return "a"

        flow("q")
        stats = seen.drain()
    assert stats.not_run == {"ragas_faithfulness": {"not_installed": 1}}
    assert not [event for event in seen.evaluations if event.evaluation.name.startswith("ragas")]


@pytest.mark.parametrize("worker", ["process", "thread"])
def test_a_broken_ragas_is_one_line_and_a_counted_reason(monkeypatch, tmp_path, worker):
    """Whatever it raises on import, in the child and in the app's process."""
    (tmp_path / "ragas").mkdir()
    (tmp_path / "ragas" / "__init__.py").write_text("raise RuntimeError('numpy is too old')")
    for name in [name for name in sys.modules if name.partition(".")[0] == "ragas"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert runner.problem(settings()).endswith(": RuntimeError: numpy is too old")
    with testing.capture(
        evaluators=["ragas_faithfulness"], escalations=[], judge_worker=worker, llm="m",
        judge_base_url="http://127.0.0.1:9/v1", store=str(tmp_path / "llmeval.db"),
    ) as seen:  # fmt: skip
        with llmeval.workflow("flow", request="q") as span:
            span.response, span.retrieved_context = "a", ["c"]
        stats = seen.drain(30)
    assert stats.not_run == {"ragas_faithfulness": {"not_installed": 1}}
    assert seen.not_run[0].detail.endswith("RuntimeError: numpy is too old")
    runner.stop_thread()


def test_a_broken_interpreter_is_one_line(tmp_path):
    """Whatever is wrong with it, the reason is its last line."""
    assert "no such file" in runner.problem(settings(ragas_python=str(tmp_path / "python")))
    broken = tmp_path / "python3"
    broken.write_text("#!/bin/sh\necho one >&2; echo two >&2; exit 1\n")
    broken.chmod(0o755)
    assert runner.problem(settings(ragas_python=str(broken))) == f"{broken}: two"


class Leasing(BaseJudge):
    """A judge that makes its calls elsewhere."""

    kind, name, version, per = "judge", "leasing", "1", "answer"
    needs = ("request",)

    def __init__(self, calls, *, used=1, tokens=10, failure=None, error=None):
        self.calls, self.used, self.tokens = calls, used, tokens
        self.failure, self.error = failure, error

    async def evaluate(self, record, llm, /):
        async with llm.lease(calls=self.calls, most=Usage(50, 50, 100)) as lease:
            if self.error:
                raise self.error
            usage = None if self.tokens is None else Usage(self.tokens, 0, self.tokens)
            lease.calls = [ModelCall(f"step {n}", 1, 2, "m", usage) for n in range(self.used)]
            lease.failure = self.failure
        from llmeval_sdk.model import Evaluation

        return Evaluation(self.name, 1.0)


def run_leasing(judge, requests=1, **configuration):
    """Run a judge on some requests; return what was captured and the keeper's books."""
    from llmeval_sdk.pipeline import runtime

    with testing.capture(
        evaluators=[judge], escalations=[], llm=testing.FakeLLM(), judge_concurrency=1,
        **configuration,
    ) as seen:  # fmt: skip

        @llmeval.workflow
        def flow(question):
            return "a"

        for number in range(requests):
            flow(f"q{number}")
        seen.drain()
        return seen, runtime.pipeline().plan.limiter.used()


def test_a_lease_reserves_the_worst_case_and_settles_with_what_was_used():
    """Five calls reserved, two made: two are in the books, with their tokens."""
    _, used = run_leasing(Leasing(5, used=2))
    assert (used.calls, used.tokens) == (2, 20)


def test_a_lease_beyond_the_budget_is_refused_before_anything_is_spent():
    """The reason is counted like that of any judge."""
    seen, used = run_leasing(Leasing(5), calls_per_minute=4)
    assert seen.reasons() == {"leasing": "over_budget"}
    assert used.calls == 0


def test_calls_of_unknown_size_may_have_cost_all_that_was_reserved():
    """The tokens reserved stay in the books."""
    _, used = run_leasing(Leasing(5, used=2, tokens=None))
    assert (used.calls, used.tokens) == (2, 100)


def test_a_lost_worker_may_have_spent_it_all_and_one_that_never_started_nothing():
    """The books are wrong to the safe side only where money may be gone."""
    seen, used = run_leasing(Leasing(5, error=JudgeError("worker_lost", "gone")))
    assert (seen.reasons(), used.calls) == ({"leasing": "worker_lost"}, 5)
    seen, used = run_leasing(Leasing(5, error=JudgeError("not_installed", "no")))
    assert (seen.reasons(), used.calls) == ({"leasing": "not_installed"}, 5)  # none added


def test_transient_failures_of_leased_calls_open_the_breaker():
    """A model that is down is left alone, whoever asks it."""
    seen, _ = run_leasing(Leasing(1, failure="unavailable"), requests=8)
    assert "circuit_open" in {each.reason for each in seen.not_run}


def test_a_run_is_a_trace_of_its_own_with_its_calls_below_it():
    """One link to what was judged, with the tokens of each."""
    seen, _ = run_leasing(Leasing(5, used=2))
    run = seen.span("leasing")
    calls = [span for span in seen.spans if span.parent_id == run.span_id]
    assert [link.span_name for link in run.links] == ["flow"]
    assert run.trace_id != seen.span("flow").trace_id
    assert [(c.name, c.kind, c.usage.total_tokens, c.model_name) for c in calls] == [
        ("step 0", "llm", 10, "m"),
        ("step 1", "llm", 10, "m"),
    ]
    assert run.usage.total_tokens == 20
    assert all(span.trace_id == run.trace_id for span in calls)


def test_the_account_balances_with_the_spans_of_a_run():
    """Spans that the judges' thread makes are counted as made and as delivered."""
    from llmeval_sdk.pipeline import runtime

    with testing.capture(
        evaluators=[Leasing(5, used=2)], escalations=[], llm=testing.FakeLLM()
    ) as seen:
        with llmeval.workflow("flow", request="q"):
            pass
        seen.drain()
        account = runtime.stats().exporters["captured"]
    assert account.balanced
    assert account.undelivered == 0
    assert len(seen.spans) == 4
