"""What a judge says of itself is part of its protocol; those that lack some of it still work."""

import copy
import pickle

import pytest
from doubles import Exporter as Smallest

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.judges import BaseJudge, LLMJudge, judge
from llmeval_sdk.model import Evaluation
from llmeval_sdk.model.protocols import Judge, complete_judge
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.testing import FakeLLM


class Former:
    """The shape of 0.1: no word about its model, and no `BaseJudge`."""

    kind, name, version, per = "judge", "former", "1", "answer"
    needs = ("request",)

    async def evaluate(self, record, llm, /):
        return Evaluation(self.name, "yes")


class FormerWithout(Former):
    """One that needs no model said so by name."""

    needs_model = False


class Whole(BaseJudge):
    name = "whole"
    needs = ("request",)
    needs_model = False

    async def judge(self, record, llm):
        return Evaluation(self.name, "yes")


def request():
    with llmeval.workflow("w", request="q") as span:
        span.response = "answer"


def named(name):
    return registry.evaluator(name)


@pytest.mark.parametrize(
    "name", registry.installed([*registry.judges(), *registry.table("library_judges")])
)
def test_every_judge_that_comes_along_has_all_parts(name):
    """So that nothing has to be looked for by name."""
    found = named(name)
    assert isinstance(found, Judge)
    assert complete_judge(found) is found


def test_judges_of_functions_and_prompts_have_all_parts():
    """A plain function is blocking, a coroutine function is not."""
    plain = judge(name="plain_one")(lambda record, llm: True)
    assert isinstance(plain, Judge)
    assert plain.blocking
    assert isinstance(LLMJudge("polite", "Is {response} polite?"), Judge)
    assert isinstance(Whole(), Judge)
    assert not Whole().blocking
    registry.forget("plain_one")


def test_a_judge_of_the_former_shape_keeps_working_and_says_what_to_do():
    """Its verdict arrives; the warning points at the line that configured it."""
    with runtime.isolated():
        with pytest.warns(DeprecationWarning, match="needs_model.*BaseJudge") as warned:
            llmeval.configure(
                evaluators=[Former()], llm=FakeLLM("x"), exporters=[kept := Smallest()]
            )
        request()
        llmeval.flush()
    (verdict,) = (each.evaluation for each in kept.evaluations if each.evaluation.name == "former")
    assert verdict.value == "yes"
    assert [each.filename for each in warned] == [__file__]


def test_what_a_former_judge_says_by_name_still_counts():
    """Without a model, one that needs none runs and the other is counted."""
    with pytest.warns(DeprecationWarning, match="lacks"):
        free, paid = complete_judge(FormerWithout()), complete_judge(Former())
    assert (free.needs_model, paid.needs_model) == (False, True)
    assert free.configured(None) is free
    assert free.lacks(None) is None
    with pytest.warns(DeprecationWarning, match="lacks"):
        other = complete_judge(Former())
    assert other != paid
    assert copy.copy(paid) == paid
    assert pickle.loads(pickle.dumps(paid)).name == "former"


def test_a_former_judge_runs_offline_as_well():
    """With the same warning."""
    with pytest.warns(DeprecationWarning, match="BaseJudge"):
        report = llmeval.evaluate(data=[{"request": "q"}], evaluators=[FormerWithout()])
    assert report.rows[0].evaluations["former"].value == "yes"
