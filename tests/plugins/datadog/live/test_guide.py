"""Datadog's guide to Ragas evaluations, end to end: a driver that knows nothing of us.

Ragas is in the environment that ``LLMEVAL_RAGAS_PYTHON`` names, as `make test-guide` does.
"""

import json
import os
import sys
from pathlib import Path

import pytest
from ragas_model import answer

from llmeval_sdk.testing.judge_server import JudgeServer


RAGAS = os.environ.get("LLMEVAL_RAGAS_PYTHON")
pytestmark = [
    pytest.mark.skipif(not RAGAS, reason="needs `make test-guide`"),
    pytest.mark.timeout(120),
]
EVALUATORS = ("ragas_faithfulness", "ragas_context_precision", "ragas_answer_relevancy")
RUN = (sys.executable, "-m", "llmeval_sdk", "run")
SAID = "The game was played in 1967. It was won by the Jets. Q: when was the first super bowl?"


@pytest.fixture(scope="module")
def driver(agent, tmp_path_factory):
    """Return a function that runs the driver under ``llmeval run``."""

    def run(*arguments, command=RUN, **variables):
        folder = tmp_path_factory.mktemp("guide")  # its own budget: runs within a minute share one
        with JudgeServer(answer) as judge, JudgeServer(lambda request: SAID) as app:
            environment = {
                "APP_MODEL": app.base_url,
                "OPENAI_BASE_URL": judge.base_url,
                "OPENAI_API_KEY": "x",
                "DD_LLMOBS_ML_APP": "test-rag-app",
                "LLMEVAL_RAGAS_PYTHON": RAGAS,
                "DD_LLMOBS_EVALUATORS": ",".join(EVALUATORS),
            }
            found = agent.run(
                "guide.py", *arguments, command=command, folder=folder, timeout=100,
                **{**environment, **variables},
            )  # fmt: skip
        assert found.code == 0, found.errors[-2_000:]
        return found

    return run


def calls_of_the_app(found):
    """Return the instrumented calls, in the order in which they were made."""
    calls = found.roots("OpenAI.createChatCompletion")
    assert len(calls) == 3
    return sorted(calls, key=lambda span: span["start_ns"])


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (("enable",), RUN),
        (("enable", "auto"), ()),
        ((), (*RUN, str(Path(sys.executable).with_name("ddtrace-run")))),
    ],
    ids=["LLMObs.enable", "import llmeval_sdk.auto", "ddtrace-run"],
)
def test_the_three_scores_stand_on_the_span_of_the_instrumented_call(driver, arguments, command):
    """With the values that the rules of the judge model give by arithmetic."""
    found = driver(*arguments, command=command)
    span, streamed, silent = calls_of_the_app(found)
    scores = {each: found.evaluation(each, on=span)["score_value"] for each in EVALUATORS}
    # statements: the game, the Jets, and the question, of which the context has the first
    assert scores["ragas_faithfulness"] == pytest.approx(1 / 3)
    assert scores["ragas_context_precision"] == 1.0
    assert scores["ragas_answer_relevancy"] == pytest.approx(1.0, abs=1e-9)
    assert found.evaluation("ragas_context_precision", on=streamed)["score_value"] == pytest.approx(
        2 / 3
    )
    assert found.evaluation("ragas_faithfulness", on=streamed)["score_value"] == pytest.approx(
        1 / 3
    )
    evaluation = found.evaluation("ragas_faithfulness", on=span)
    assert evaluation["join_on"]["span"]["trace_id"] == span["trace_id"]
    assert "ml_app:test-rag-app" in evaluation["tags"]
    ragas = [each for each in found.evaluations if each["label"].startswith("ragas")]
    assert silent["span_id"] not in {each["join_on"]["span"]["span_id"] for each in ragas}
    assert len(ragas) == 6


def test_the_sampling_rules_hold(driver):
    """One evaluator on one span name, nothing else."""
    rules = [
        {"sample_rate": 1.0, "evaluator_label": EVALUATORS[0], "span_name": "generate_answer"},
        {"sample_rate": 0},
    ]
    found = driver("enable", DD_LLMOBS_EVALUATOR_SAMPLING_RULES=json.dumps(rules))
    ragas = [each for each in found.evaluations if each["label"].startswith("ragas")]
    assert [each["label"] for each in ragas] == [EVALUATORS[0]]
    assert ragas[0]["join_on"]["span"]["span_id"] == calls_of_the_app(found)[0]["span_id"]


def test_each_run_is_a_trace_of_its_own_with_datadogs_tag(driver):
    """``runner.integration:ragas`` on the run and on the model calls below it.

    A metric of Ragas' own has a label that Datadog takes.
    """
    found = driver("enable", DD_LLMOBS_EVALUATORS=f"{EVALUATORS[0]},ragas:context_utilization")
    own = found.evaluation("ragas__context_utilization", on=calls_of_the_app(found)[0])
    assert own["score_value"] == pytest.approx(1.0)
    runs = found.roots("ragas_faithfulness")
    assert len(runs) == 2
    for run in runs:
        assert "runner.integration:ragas" in run["tags"]
        calls = found.children(run)
        assert [call["meta"]["span"]["kind"] for call in calls] == ["llm", "llm"]
        assert all("runner.integration:ragas" in call["tags"] for call in calls)


@pytest.mark.parametrize(
    ("arguments", "variables", "words"),
    [
        (("unpatched",), {}, ("no llm span", "LLMObs.enable()")),
        (("enable",), {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}, ("OPENAI_API_KEY",)),
        (
            ("enable",),
            {"LLMEVAL_RAGAS_PYTHON": sys.executable},
            ("Ragas cannot be imported", "llmeval ragas setup"),
        ),
        (
            ("enable",),
            {"LLMEVAL_BUDGET_CALLS_PER_MINUTE": "1"},
            ("LLMEVAL_BUDGET_CALLS_PER_MINUTE",),
        ),
    ],
    ids=["no integration", "no key", "wrong Ragas", "calls used up"],
)
def test_what_keeps_the_scores_away_is_said_in_one_line(driver, arguments, variables, words):
    """Once, with what to do about it."""
    found = driver(*arguments, **variables)
    lines = [line for line in found.errors.splitlines() if "ragas" in line.lower()]
    assert len(lines) == 1, found.errors[-3_000:]
    assert all(word in lines[0] for word in words), lines[0]
