"""The same evaluator gives the same answer online and offline: resolving, failing, paying, keeping."""

from __future__ import annotations

import importlib.metadata
import sys
import types

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import testing
from llmeval_sdk.errors import ConfigurationError, JudgeError
from llmeval_sdk.judges import BaseJudge, FunctionJudge
from llmeval_sdk.model import Completion, Evaluation, Usage
from llmeval_sdk.model.protocols import LLM


ROW = {
    "request": "roof?",
    "response": "a slate roof",
    "retrieved_context": [{"content": "a slate roof", "score": 0.9}],
}


def online(evaluator, llm=None, **configuration):
    """The evaluation that an evaluator of a request gets, and why it did not run."""
    with testing.capture(
        raise_again=False, evaluators=[evaluator], escalations=[], llm=llm, **configuration
    ) as seen:
        with llmeval.workflow("answer", request=ROW["request"]) as span:
            span.annotate(response=ROW["response"], retrieved_context=ROW["retrieved_context"])
        seen.drain()
    return seen


def both(evaluator, llm=None, name=None, **offline):
    """The evaluation of one evaluator, online and offline."""
    name = name or (evaluator if isinstance(evaluator, str) else evaluator.name)
    live = online(evaluator, llm).scores("answer").get(name)
    report = llmeval.evaluate([ROW], evaluators=[evaluator], llm=llm, progress=False, **offline)
    return live, report.rows[0].evaluations.get(name)


def told(evaluation):
    """What an evaluation says, without what depends on the moment."""
    metadata = {k: v for k, v in evaluation.metadata.items() if k not in ("why", "cached")}
    error = evaluation.error and (evaluation.error.type, evaluation.error.message)
    return (
        evaluation.name, evaluation.value, error, evaluation.explanation,
        evaluation.evaluator_kind, evaluation.evaluator_version, metadata, evaluation.usage,
    )  # fmt: skip


class Dated(LLM):
    """Answers as a model of a date, as servers do that were asked for an alias."""

    model = "alias"

    def __init__(self, text='{"rationale": "r", "rating": "yes"}'):
        self.text = text
        self.calls = 0

    async def complete(self, messages, /, *, schema=None, max_tokens=4096):
        self.calls += 1
        return Completion(self.text, "alias-2026-01-01", Usage(10, 5, 15))


async def _raises(record, llm):
    raise KeyError("no such thing")


async def _refuses(record, llm):
    raise JudgeError("malformed", "no verdict in it")


async def _not_finite(record, llm):
    return float("nan")


async def _exits(record, llm):
    sys.exit(3)


async def _gives_a_list(record, llm):
    return ["yes"]


async def _says_yes(record, llm):
    return bool((await llm.complete([llmeval.Message("user", "polite?")])).text)


@pytest.mark.parametrize(
    "function", [_raises, _refuses, _not_finite, _exits, _gives_a_list, _says_yes]
)
def test_a_judge_of_the_apps_own_gives_the_same_evaluation(function):
    """Its verdict and each kind of failure, with name, version, error, model and usage."""
    live, row = both(FunctionJudge(function, name="polite"), Dated())
    assert told(live) == told(row)


def test_a_verdict_names_the_model_that_answered():
    """A server that was asked for an alias says which model it is; both ways keep that."""
    live, row = both("groundedness", Dated(), cache=False)
    assert told(live) == told(row)
    assert live.metadata["model"] == "alias-2026-01-01"


class _Needs:
    """A heuristic that reads a field it declares as needed."""

    kind, name, version, needs = "heuristic", "cites", "1", ("expected_response",)
    inline = automatic = False

    def evaluate(self, record, /):
        return float(len(record.expected_response))


def test_a_heuristic_asked_for_by_name_says_which_input_is_missing():
    """It is not run without what it needs: that is not applicable, and no error of its own."""
    heuristic = _Needs()
    with testing.capture(raise_again=False) as seen:
        with llmeval.workflow("answer", request="q", evaluators=[heuristic]) as span:
            span.response = "r"
        seen.drain()
    live = seen.scores("answer")["cites"]
    row = llmeval.evaluate([ROW], evaluators=[heuristic], progress=False).rows[0]
    assert told(live) == told(row.evaluations["cites"])
    assert live.error is None
    assert live.explanation == "not applicable: no expected_response"


@pytest.fixture
def package(monkeypatch):
    """Another package: a module with evaluators, and the entry points it declares."""
    module = types.ModuleType("other_package")

    def starts_well(record):
        return record.response.startswith("a ")

    module.starts_well = starts_well
    module.polite = FunctionJudge(_says_yes, name="polite")
    monkeypatch.setitem(sys.modules, "other_package", module)
    points = [
        importlib.metadata.EntryPoint(name, value, "llmeval_sdk.evaluators")
        for name, value in (
            ("starts_well", "other_package:starts_well"),
            ("broken", "no_such_package_at_all:judge"),
        )
    ]
    real = importlib.metadata.entry_points

    def entry_points(**params):
        found = list(real(**params))
        return found + points if params.get("group") == "llmeval_sdk.evaluators" else found

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    return module


@pytest.mark.parametrize("address", ["other_package:starts_well", "starts_well"])
def test_an_address_and_an_entry_point_are_evaluators_online_and_offline(package, address):
    """``module:name`` works in ``configure()`` too, and an entry point may be a plain function."""
    live, row = both(address, name="starts_well")
    assert live is not None
    assert (live.value, row.value) == (True, True)


def test_an_address_works_in_the_environment(package, monkeypatch):
    """What ``llmeval evaluate --evaluators`` takes, ``LLMEVAL_EVALUATORS`` takes as well."""
    monkeypatch.setenv("LLMEVAL_EVALUATORS", "other_package:starts_well")
    with testing.capture() as seen:
        with llmeval.workflow("answer", request="q") as span:
            span.response = "a roof"
        seen.drain()
    assert seen.scores("answer")["starts_well"].value is True


@pytest.mark.parametrize("name", ["broken", "no_such_module_here:x", "other_package:x"])
def test_what_cannot_be_loaded_is_refused_with_its_name(package, name):
    """A person who is watching gets one kind of error, which names the evaluator."""
    with pytest.raises(ConfigurationError, match=name), testing.capture(evaluators=[name]):
        pass
    with pytest.raises(ConfigurationError, match=name):
        llmeval.evaluate([ROW], evaluators=[name], progress=False)


def test_an_entry_point_in_the_environment_that_cannot_be_loaded_is_left_out(package, monkeypatch):
    """The rest is set up all the same: the built-in heuristics go on scoring."""
    monkeypatch.setenv("LLMEVAL_EVALUATORS", "broken")
    with testing.capture() as seen:
        with llmeval.workflow("answer", request="q") as span:
            span.annotate(
                response="a roof", retrieved_context=[{"content": "a roof", "score": 0.9}]
            )
        seen.drain()
    assert "context_relevance" in seen.scores("answer")


def test_what_configure_was_given_wins_over_the_environments_evaluator_of_the_same_name(
    package, monkeypatch
):
    """As for every setting: what is given wins over the environment."""
    monkeypatch.setenv("LLMEVAL_EVALUATORS", "starts_well")

    class Given(_Needs):
        name, needs = "starts_well", ()

        def evaluate(self, record, /):
            return "given"

    with testing.capture(evaluators=[Given()]) as seen:
        with llmeval.workflow("answer", request="q") as span:
            span.response = "a roof"
        seen.drain()
    assert seen.scores("answer")["starts_well"].value == "given"


class _Asks(BaseJudge):
    """A judge that shows its rubric to the model."""

    def __init__(self, name="polite"):
        self.name = name

    async def judge(self, record, llm):
        reply = await llm.complete([llmeval.Message("user", "?")])
        return Evaluation(self.name, reply.text)


def test_another_prompt_under_the_same_name_is_another_judgement():
    """A verdict of one wording is never given for another, neither online nor offline."""
    kind, politely = (llmeval.LLMJudge("polite", f"Is it {word}?\n\n{{response}}") for word in "ab")
    model = testing.FakeLLM({"rationale": "r", "rating": "yes"}, {"rationale": "r", "rating": "no"})
    with testing.capture(raise_again=False, llm=model, escalations=[]) as seen:
        for judge in (kind, politely):
            with llmeval.workflow("answer", request="q", evaluators=[judge]) as span:
                span.response = "the same"
            seen.drain()
    assert [
        each.evaluation.value for each in seen.evaluations if each.evaluation.name == "polite"
    ] == [
        "yes",
        "no",
    ]


def test_a_kept_verdict_says_why_this_record_was_judged():
    """It was made for another record; the reason and the chance are those of this one."""

    @llmeval.heuristic
    def mood(record) -> float:
        return float(record.span_name)

    model = testing.FakeLLM({"rationale": "r", "rating": "yes"})
    escalation = llmeval.Escalation("safety", when=llmeval.below("mood", 0.5))
    with testing.capture(llm=model, escalations=[escalation]) as seen:
        for name in ("0.1", "0.2"):
            with llmeval.workflow(name, request="q") as span:
                span.response = "the same"
            seen.drain()
    first, kept = (seen.scores(name)["safety"] for name in ("0.1", "0.2"))
    assert len(model.calls) == 1
    assert "cached" not in first.metadata
    assert kept.metadata["cached"]
    assert "mood 0.10" in first.metadata["why"]
    assert "mood 0.20" in kept.metadata["why"]


def test_a_chunk_judge_of_which_a_part_failed_is_asked_again():
    """Its precision stands for the chunks that could be rated; it is not kept as the answer."""
    model = testing.FakeLLM(
        {"rationale": "r", "rating": "yes"}, JudgeError("malformed", "no verdict"),
        {"rationale": "r", "rating": "yes"}, {"rationale": "r", "rating": "no"},
    )  # fmt: skip
    with testing.capture(llm=model, escalations=[], evaluators=["chunk_relevance"]) as seen:
        for _ in range(2):
            with llmeval.workflow("answer", request="q") as span:
                span.annotate(response="r", retrieved_context=["one", "two"])
            seen.drain()
    values = [
        each.evaluation.value
        for each in seen.evaluations
        if each.evaluation.name == "chunk_relevance"
    ]
    assert values == [1.0, 0.5]


def test_a_judge_without_a_model_runs_offline_where_none_can_be_reached(monkeypatch):
    """It asks nobody, so a client that is not installed is no reason to stop the run."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setitem(sys.modules, "openai", None)

    class Plain(_Asks):
        needs_model = False

        async def judge(self, record, llm):
            return Evaluation(self.name, 1.0)

    live, row = both(Plain("plain"))
    assert live is not None
    assert (live.value, row.value) == (1.0, 1.0)
