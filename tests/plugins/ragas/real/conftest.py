"""One child for all tests: it takes two seconds to import Ragas."""

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import testing


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """Hold the store whose users share the child."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(autouse=True)
def _one_child(monkeypatch, shared_folder, _fresh_environment):
    monkeypatch.setenv("LLMEVAL_STORE", str(shared_folder / "llmeval.db"))
    monkeypatch.setenv("LLMEVAL_BUDGET_CALLS_PER_MINUTE", "1000000")
    monkeypatch.setenv("LLMEVAL_BUDGET_TOKENS_PER_MINUTE", "1000000000")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


@pytest.fixture
def judge(model):
    """Return a function that has one record judged by named evaluators, in the child or not."""

    def run(
        *evaluators,
        answer="a",
        contexts=("c",),
        question="q",
        worker="process",
        expected=(),
        **given,
    ):
        given.setdefault("judge_base_url", model.base_url)
        given.setdefault("judge_model", "m")
        with testing.capture(
            evaluators=list(evaluators), escalations=[], judge_worker=worker, **given
        ) as seen:

            @llmeval.workflow
            def flow(question):
                llmeval.annotate(retrieved_context=list(contexts), **dict(expected))
                return answer

            flow(question)
            seen.drain(60)
        return seen

    return run


@pytest.fixture
def score(judge):
    """Return a function that gives the evaluations of one record, by name."""

    def run(*evaluators, **record):
        seen = judge(*evaluators, **record)
        return {name: found for name, found in seen.scores().items() if name.startswith("ragas")}

    return run
