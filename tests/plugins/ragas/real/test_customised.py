"""An app's own changes to Ragas: in its process, in the child, as objects."""

import gc
import json
import sys
import warnings

import pytest

from llmeval_sdk.plugins.ragas import runner


ANSWER = "The tower is old. The tower is green."
CONTEXTS = ("useful: the tower is old.",)
MARK = "Mind the steps."


def prompts(model):
    return json.dumps([seen.body["messages"] for seen in model.chats])


@pytest.fixture
def own_ragas(monkeypatch):
    """Give this test a Ragas that no other test has changed or will see."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "ragas"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setenv("RAGAS_DO_NOT_TRACK", "true")
    yield
    runner.stop_thread()
    for name in [name for name in sys.modules if name.partition(".")[0] == "ragas"]:
        del sys.modules[name]
    engine = sys.modules.get("llmeval_sdk.plugins.ragas._engine")
    if engine:
        engine.engine.cache_clear()
    for name in ("_scoring",):
        sys.modules.pop(f"llmeval_sdk.plugins.ragas.{name}", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the apps' own clients in these tests are left open
        gc.collect()


@pytest.mark.filterwarnings("ignore")
def test_in_the_apps_process_changes_to_the_singletons_apply(score, model, own_ragas):
    """An app that imported Ragas gets the thread by itself, and its prompt."""
    from ragas.metrics import faithfulness

    before = faithfulness.statement_generator_prompt.instruction
    faithfulness.statement_generator_prompt.instruction += f" {MARK}"
    found = score("ragas_faithfulness", answer=ANSWER, contexts=CONTEXTS, worker=None)
    faithfulness.statement_generator_prompt.instruction = before
    assert found["ragas_faithfulness"].value == pytest.approx(1 / 2)
    assert MARK in prompts(model)


@pytest.mark.filterwarnings("ignore")
def test_an_llm_of_the_apps_own_on_a_singleton_is_asked(score, model, own_ragas):
    """With ``faithfulness.llm`` set, our model is not needed."""
    from openai import AsyncOpenAI
    from ragas.llms import llm_factory
    from ragas.metrics import faithfulness

    client = AsyncOpenAI(base_url=model.base_url, api_key="k", max_retries=0)
    faithfulness.llm = llm_factory("its-own", client=client)
    try:
        found = score("ragas_faithfulness", answer=ANSWER, contexts=CONTEXTS, worker=None)
    finally:
        faithfulness.llm = None
    assert found["ragas_faithfulness"].value == pytest.approx(1 / 2)
    assert {seen.body["model"] for seen in model.chats} == {"its-own"}


SETUP = f"""
from ragas.metrics import faithfulness
from ragas._analytics import do_not_track

def change():
    faithfulness.statement_prompt.instruction += " {MARK}"
    if not do_not_track():
        raise RuntimeError("Ragas would report to its makers")
"""


def test_a_setup_function_does_the_same_in_the_child(score, model, monkeypatch, tmp_path):
    """The guide's old name of the prompt works there; Ragas' telemetry is off."""
    (tmp_path / "my_ragas.py").write_text(SETUP)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = score(
        "ragas_faithfulness", answer=ANSWER, contexts=CONTEXTS, ragas_setup="my_ragas:change"
    )
    assert found["ragas_faithfulness"].error is None
    assert MARK in prompts(model)


def test_a_setup_function_that_fails_is_told(judge, monkeypatch, tmp_path):
    """The judge errs with what the function raised."""
    (tmp_path / "bad_ragas.py").write_text("def change():\n    raise RuntimeError('no')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    seen = judge("ragas_faithfulness", ragas_setup="bad_ragas:change")
    (told,) = seen.not_run
    assert told.reason == "error"
    assert "bad_ragas:change: RuntimeError: no" in told.detail


@pytest.mark.filterwarnings("ignore")
def test_metric_objects_of_both_families_are_evaluators(score, model, own_ragas):
    """The current one brings its LLM; the legacy one without any gets ours."""
    from openai import AsyncOpenAI
    from ragas.llms import llm_factory
    from ragas.metrics import Faithfulness as Legacy
    from ragas.metrics.collections import Faithfulness

    client = AsyncOpenAI(base_url=model.base_url, api_key="k", max_retries=0)
    current = Faithfulness(llm=llm_factory("its-own", client=client), name="current")
    legacy = Legacy(name="legacy")
    found = score(current, legacy, answer=ANSWER, contexts=CONTEXTS, worker=None)
    assert found["ragas:current"].value == pytest.approx(1 / 2)
    assert found["ragas:legacy"].value == pytest.approx(1 / 2)
    assert legacy.llm is None
    assert {seen.body["model"] for seen in model.chats} == {"its-own", "m"}


@pytest.mark.filterwarnings("ignore")
def test_a_decorator_takes_a_metric_object(model, own_ragas):
    """``workflow(evaluators=[metric])`` as for any evaluator."""
    from ragas.metrics import Faithfulness

    import llmeval_sdk as llmeval
    from llmeval_sdk import testing

    with testing.capture(judge_model="m", judge_base_url=model.base_url, escalations=[]) as seen:

        @llmeval.workflow(evaluators=[Faithfulness(name="mine")])
        def flow(question):
            llmeval.annotate(retrieved_context=list(CONTEXTS))
            return ANSWER

        flow("q")
        seen.drain(60)
    assert seen.scores()["ragas:mine"].value == pytest.approx(1 / 2)


@pytest.mark.filterwarnings("ignore")
def test_a_judge_model_that_is_an_object_runs_on_the_thread(own_ragas):
    """Only this process can ask it."""
    import llmeval_sdk as llmeval
    from llmeval_sdk import testing

    llm = testing.FakeLLM({"reason": "r", "verdict": 1})
    with testing.capture(evaluators=["ragas_context_precision"], escalations=[], llm=llm) as seen:
        with llmeval.workflow("flow", request="q") as span:
            span.response, span.retrieved_context = "a", ["c", "d"]
        seen.drain(60)
    assert seen.scores()["ragas_context_precision"].value == 1.0
    assert len(llm.calls) == 2
