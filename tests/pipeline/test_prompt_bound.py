"""No prompt of a judge is longer than the limit; what is left out is marked and counted."""

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import testing
from llmeval_sdk.evaluation.models import MAX_PROMPT_CHARACTERS
from llmeval_sdk.judges import FunctionJudge


HUGE = "beginning " + "x" * 2_000_000


@llmeval.workflow
def answer(question):
    llmeval.annotate(retrieved_context=["a slate roof"])
    return HUGE


@pytest.fixture
def judged():
    """Judge a huge answer; returns the model, the verdict and the counters."""

    def call(judge, **configuration):
        model = testing.FakeLLM({"rationale": "r", "rating": "yes"})
        with testing.capture(
            evaluators=[judge], escalations=[], llm=model, **configuration
        ) as captured:
            answer("roof?")
            stats = captured.drain()
        name = judge if isinstance(judge, str) else judge.name
        verdict = captured.scores()[name]
        return model, verdict, stats

    return call


def test_a_judge_of_the_apps_own_cannot_send_more_than_the_limit(judged):
    """Its middle goes, with a mark; the verdict and the counters say that it did."""

    async def asks_it_all(record, llm):
        reply = await llm.complete([llmeval.Message("user", f"{record.response * 5} end")])
        return bool(reply.text)

    judge = FunctionJudge(asks_it_all, name="asks_it_all")
    model, verdict, stats = judged(judge)
    ((message,),) = model.calls
    assert len(message.content) < MAX_PROMPT_CHARACTERS + 100
    assert message.content.startswith("beginning ")
    assert message.content.endswith(" end")
    assert "characters left out]" in message.content
    assert verdict.metadata["cut_prompts"] == 1
    assert stats.cut_prompts == 1


def test_a_built_in_judge_says_which_section_was_cut(judged):
    """The same count, by whichever limit it was cut."""
    _, verdict, stats = judged("groundedness")
    assert verdict.metadata["cut"] == ["response"]
    assert stats.cut_prompts == 1


def test_short_prompts_are_sent_as_they_are():
    """Nothing is said where nothing was cut."""
    model = testing.FakeLLM({"rationale": "r", "rating": "yes"})
    with testing.capture(evaluators=["safety"], escalations=[], llm=model) as captured:
        with llmeval.workflow("answer", request="q") as span:
            span.response = "short"
        stats = captured.drain()
    verdict = captured.scores()["safety"]
    assert not {"cut", "cut_prompts"} & set(verdict.metadata)
    assert stats.cut_prompts == 0


def test_a_model_of_unknown_price_has_a_ceiling_of_tokens():
    """What does not fit in the minute is counted as over_budget, with how to set a price."""
    model = testing.FakeLLM({"rationale": "r", "rating": "yes"})
    with testing.capture(evaluators=["safety"], escalations=[], llm=model) as captured:
        for number in range(40):
            with llmeval.workflow("answer", request="q" * 30_000) as span:
                span.response = f"{number} " + "y" * 30_000
        captured.drain()
    refused = [each for each in captured.not_run if each.reason == "over_budget"]
    assert len(model.calls) < 20
    assert len(model.calls) + len(refused) == 40
    assert "price is unknown: set LLMEVAL_PRICES" in refused[0].detail
