"""From the app to the verdict: an app, a Redis, real workers, and the judge's server."""

import json
import subprocess
import sys
from collections import Counter

import pytest
from fleet_parts import APP, account, environment, judging, run_app, until, verdicts, worker
from otlp_collector import attributes_of, running_collector


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_verdicts_return_to_the_store_of_the_app(pool, broker, judge_server, tmp_path):
    """Each request has one verdict in the app's own store, and the account balances."""
    env = environment(broker.address, tmp_path)
    with worker(judging(env, judge_server), "--pool", pool):
        said = run_app(env, "wait", 0, 40)
    assert said["fleet"] == {"handed_over": 40, "returned": 40}
    assert said["judged"] == {"groundedness": 40}
    assert said["not_run"] == {}
    stored = verdicts(env["LLMEVAL_STORE"])
    assert len({span for span, _ in stored}) == len(stored) == 40
    assert judge_server.calls == 40
    now = account(broker)
    assert (now.asked, now.judged, now.waiting, now.refused) == (40, 40, 0, {})


def test_a_worker_sends_verdicts_to_its_own_exporters(broker, judge_server, tmp_path):
    """Where the app exports by OTLP, the worker does too, and the verdict names the app's span."""
    with running_collector() as collector:
        env = environment(broker.address, tmp_path, LLMEVAL_EXPORTERS="otlp",
                          OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)  # fmt: skip
        with worker(judging(env, judge_server)):
            said = run_app(env, "leave", 0, 20)
            assert said["complete"]
            until(lambda: account(broker).judged == 20, "20 verdicts")
            until(lambda: len(_scores(collector)) >= 20, "20 verdicts by OTLP")
        spans = {
            span.span_id for span in collector.spans
            if "workflow" in str(attributes_of(span)) and span.name.endswith("answer")
        }  # fmt: skip
        scores = _scores(collector)
    assert Counter(scores) == Counter(dict.fromkeys(scores, 1))
    assert set(scores) <= spans
    assert len(scores) == 20


def _scores(collector):
    return [
        log.span_id for log in list(collector.logs)
        if attributes_of(log).get("gen_ai.evaluation.name") == "groundedness"
    ]  # fmt: skip


def test_the_apps_own_judges_are_names(broker, judge_server, tmp_path):
    """A judge of the app runs by what the worker's own configuration calls so; others are refused."""
    (tmp_path / "my_judges.py").write_text(
        "import llmeval_sdk as llmeval\n"
        "polite = llmeval.LLMJudge('polite', 'Is it polite?\\n\\n{response}')\n"
        "def configure():\n    llmeval.configure(evaluators=[polite], escalations=[])\n"
    )
    app = (
        "import sys; sys.path[:0] = [sys.argv[1], sys.argv[2]]\n"
        "import apps, my_judges, llmeval_sdk as llmeval\n"
        "other = llmeval.LLMJudge('other', 'Is it?\\n\\n{response}')\n"
        "llmeval.configure(evaluators=[my_judges.polite, other], escalations=[])\n"
        "apps.ask(0, 3); llmeval.flush(30); apps.returned(6); apps.say()\n"
    )
    env = environment(broker.address, tmp_path)
    with worker(judging(env, judge_server, HERE=str(tmp_path)), "--app", "my_judges:configure"):
        done = subprocess.run(
            [sys.executable, "-c", app, str(tmp_path), str(APP.parent)],
            env=env, capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
    said = json.loads(done.stdout)
    assert said["judged"] == {"polite": 3}
    assert said["not_run"] == {"other": {"error": 3}}
    now = account(broker)
    assert (now.judged, dict(now.refused), now.is_balanced) == (3, {"unknown_judge": 3}, True)


def test_a_forged_message_is_counted_and_judges_nothing(broker, judge_server, tmp_path):
    """Whoever can write to Redis but has no key cannot make the fleet pay."""
    env = environment(broker.address, tmp_path)
    other = {**env, "LLMEVAL_FLEET_KEY": "another-key-of-the-tests"}
    with worker(judging(env, judge_server)):
        run_app(other, "leave", 0, 3)
        until(lambda: account(broker).messages, "a refused message")
    assert account(broker).messages == {"forged": 1}
    assert judge_server.calls == 0


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_workers_share_one_budget_through_the_queue(pool, broker, judge_server, tmp_path):
    """Nothing has to be set for it; a worker begins when the budget is open."""
    env = environment(broker.address, tmp_path)
    own = judging(env, judge_server)
    own.pop("LLMEVAL_SHARED")
    with worker(own, "--pool", pool):
        said = run_app(env, "wait", 0, 40)
    assert said["judged"] == {"groundedness": 40}
    assert said["not_run"] == {}
    assert broker.client().keys("llmeval.{shared}.*")
