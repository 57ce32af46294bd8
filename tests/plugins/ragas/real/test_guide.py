"""The guide's steps through the environment, in programs of their own."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest


ROOT = Path(__file__).resolve().parents[4]
DRIVER = """
    import sys
    from llmeval_sdk import Prompt, annotation_context, flush, llm

    @llm(model_name="m")
    def complete(messages):
        return {"choices": [{"message": {"role": "assistant", "content": "The tower is old."}}]}

    def ask(name, question):
        with annotation_context(
            prompt=Prompt(
                variables={"context": "useful: the tower is old.", "question": question},
                rag_context_variable_keys=["context"],
                rag_query_variable_keys=["question"],
            ),
            name=name,
        ):
            return complete([{"role": "user", "content": question}])

    for number in range(20):
        ask("generate_answer", f"how old is it? {number}")
        ask("another_step", f"how old is it? {number}")
    if flush(60).complete is not True:
        sys.exit("not complete")
    import json
    from llmeval_sdk import stats
    from llmeval_sdk.exporters import memory
    found = [
        (e.target.span_name, e.evaluation.name, e.evaluation.value)
        for e in memory.evaluations()
        if e.evaluation.evaluator_kind == "judge"
    ]
    modules = sorted(
        {"ragas", "langchain_core", "instructor", "pandas", "openai", "tenacity"} & set(sys.modules)
    )
    print(json.dumps({"found": found, "not_run": stats().not_run, "modules": modules}, default=dict))
"""
RULES = [
    {"sample_rate": 1.0, "evaluator_label": "ragas_faithfulness", "span_name": "generate_answer"},
    {"sample_rate": 0.5, "evaluator_label": "ragas_context_precision"},
    {"sample_rate": 0},
]


@pytest.fixture
def driver(tmp_path, model, shared_folder):
    """Return a function that runs the driver in an environment of variables alone."""
    program = tmp_path / "driver.py"
    program.write_text(textwrap.dedent(DRIVER))

    def run(*command, python=sys.executable, **variables):
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "PYTHONPATH": str(ROOT),
            "OPENAI_API_KEY": "sk-test",
            "OPENAI_BASE_URL": model.base_url,
            "LLMEVAL_EXPORTERS": "memory",
            "LLMEVAL_STORE": str(shared_folder / "llmeval.db"),
            "LLMEVAL_BUDGET_CALLS_PER_MINUTE": "100000",
            "DD_LLMOBS_EVALUATORS": "ragas_faithfulness,ragas_context_precision,ragas_answer_relevancy",
            **variables,
        }
        done = subprocess.run(
            [*(command or (python, "-m", "llmeval_sdk", "run", python)), str(program)],
            env=environment, capture_output=True, text=True, timeout=55, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_three_evaluators_and_their_sampling_rules_by_the_environment(driver):
    """First match wins: one always on one span name, one in half of the traces, one never."""
    found = driver(DD_LLMOBS_EVALUATOR_SAMPLING_RULES=json.dumps(RULES))
    names = [tuple(each[:2]) for each in found["found"]]
    assert names.count(("generate_answer", "ragas_faithfulness")) == 20
    assert names.count(("another_step", "ragas_faithfulness")) == 0
    precision = sum(name == "ragas_context_precision" for _, name in names)
    assert 8 <= precision <= 32
    assert found["not_run"]["ragas_context_precision"] == {"not_sampled": 40 - precision}
    assert found["not_run"]["ragas_answer_relevancy"] == {"not_sampled": 40}
    assert {value for *_, value in found["found"]} == {1.0}
    assert found["modules"] == []  # all of that is in the child


def test_without_rules_everything_is_judged(driver):
    """As in the guide: no rule means 100 %."""
    found = driver()
    assert len(found["found"]) == 120


def test_one_import_line_does_the_same(driver, tmp_path):
    """``import llmeval_sdk.auto`` instead of ``llmeval run``."""
    program = tmp_path / "driver.py"
    program.write_text("import llmeval_sdk.auto\n" + program.read_text())
    assert len(driver(sys.executable)["found"]) == 120


def test_ragas_in_another_environment_needs_nothing_in_the_apps(driver):
    """The app's interpreter has neither Ragas nor a client for the judge model."""
    bare = getattr(sys, "_base_executable", sys.executable)
    if (
        subprocess.run([bare, "-c", "import openai"], check=False, capture_output=True).returncode
        == 0
    ):
        pytest.skip("the bare interpreter has packages of its own")
    found = driver(bare, LLMEVAL_RAGAS_PYTHON=sys.executable)
    assert len(found["found"]) == 120
    assert found["modules"] == []
