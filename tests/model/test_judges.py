"""What a judge says of itself is part of its protocol; one that lacks some of it is refused."""

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.judges import BaseJudge, LLMJudge, judge
from llmeval_sdk.model import Evaluation
from llmeval_sdk.model.protocols import Judge, check_judge
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.testing import FakeLLM


class Partial:
    """A judge without a base, which says nothing of its model."""

    kind, name, version, per = "judge", "partial", "1", "answer"
    needs = ("request",)

    async def evaluate(self, record, llm, /):
        return Evaluation(self.name, "yes")


class Whole(BaseJudge):
    name = "whole"
    needs = ("request",)
    needs_model = False

    async def judge(self, record, llm):
        return Evaluation(self.name, "yes")


def named(name):
    return registry.evaluator(name)


@pytest.mark.parametrize(
    "name", registry.installed([*registry.judges(), *registry.table("library_judges")])
)
def test_every_judge_that_comes_along_has_all_parts(name):
    """So that nothing has to be looked for by name."""
    found = named(name)
    assert isinstance(found, Judge)
    assert check_judge(found) is found


def test_judges_of_functions_and_prompts_have_all_parts():
    """A plain function is blocking, a coroutine function is not."""
    plain = judge(name="plain_one")(lambda record, llm: True)
    assert isinstance(plain, Judge)
    assert plain.blocking
    assert isinstance(LLMJudge("polite", "Is {response} polite?"), Judge)
    assert isinstance(Whole(), Judge)
    assert not Whole().blocking
    registry.forget("plain_one")


def test_a_judge_that_lacks_a_part_is_refused_where_it_is_configured():
    """The message names what it lacks and the base that has a default for each part."""
    with runtime.isolated(), pytest.raises(ConfigurationError, match=r"needs_model.*BaseJudge"):
        llmeval.configure(evaluators=[Partial()], llm=FakeLLM("x"))
    with pytest.raises(ConfigurationError, match=r"'partial' lacks .*BaseJudge"):
        llmeval.evaluate(data=[{"request": "q"}], evaluators=[Partial()])


def test_a_judge_that_needs_no_model_runs_without_one():
    """Its verdict stands in the report although no judge model is configured."""
    report = llmeval.evaluate(data=[{"request": "q"}], evaluators=[Whole()])
    assert report.rows[0].evaluations["whole"].value == "yes"
