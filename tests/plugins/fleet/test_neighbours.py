"""Inside a Celery app and under gevent a fleet works, and the app's own Celery stays as it is."""

import json
import subprocess
import sys

import pytest
from fleet_parts import APP, account, environment, judging, until, worker


CELERY_APP = """
import sys; sys.path.insert(0, sys.argv[1])
from celery import Celery, current_app, signals
mine = Celery("mine", broker="memory://", backend="cache+memory://")
mine.conf.task_always_eager = True
seen = []
signals.before_task_publish.connect(lambda **_: seen.append("published"), weak=False)
import apps, llmeval_sdk as llmeval
before = dict(mine.conf), list(mine.tasks)

@mine.task
def work(n):
    apps.ask(n, 5)

apps.configure()
work.delay(0)
assert llmeval.flush(30).complete
apps.returned(5)
assert current_app._get_current_object() is mine
assert [t for t in mine.tasks if "llmeval" in t] == []
assert mine.conf.broker_url == "redis://127.0.0.1:1/0", mine.conf.broker_url
apps.say(seen=seen)
"""
GEVENT_APP = """
from gevent import monkey; monkey.patch_all()
import sys; sys.path.insert(0, sys.argv[1])
import apps, gevent, llmeval_sdk as llmeval
apps.configure()
gevent.joinall([gevent.spawn(apps.ask, n * 5, 5) for n in range(4)])
assert llmeval.flush(60).complete
apps.returned(20)
apps.say()
"""
REDIRECTIONS = {
    "CELERY_BROKER_URL": "redis://127.0.0.1:1/0",
    "CELERY_BROKER_READ_URL": "redis://127.0.0.1:1/0",
    "CELERY_BROKER_WRITE_URL": "redis://127.0.0.1:1/0",
    "CELERY_RESULT_BACKEND": "redis://127.0.0.1:1/0",
    "CELERY_CONFIG_MODULE": "no_such_module",
    "CELERY_LOADER": "no.such.loader:Loader",
}


def _say(program, env):
    done = subprocess.run(
        [sys.executable, "-c", program, str(APP.parent)],
        env=env, capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_inside_a_celery_app(broker, judge_server, tmp_path):
    """Its current app, configuration, tasks and signal handlers see nothing of ours."""
    env = environment(broker.address, tmp_path)
    with worker(judging(env, judge_server)):
        said = _say(CELERY_APP, {**env, "CELERY_BROKER_URL": "redis://127.0.0.1:1/0"})
    assert said["fleet"] == {"handed_over": 5, "returned": 5}
    assert said["seen"] == []


def test_under_gevent(broker, judge_server, tmp_path):
    """Where all threads are greenlets, judgements are handed over and verdicts return."""
    pytest.importorskip("gevent")
    env = environment(broker.address, tmp_path)
    with worker(judging(env, judge_server)):
        said = _say(GEVENT_APP, env)
    assert said["fleet"] == {"handed_over": 20, "returned": 20}


def test_no_variable_of_celery_redirects_a_worker(broker, judge_server, tmp_path):
    """Celery's variables win over its configuration; an explicit connection wins over them."""
    env = environment(broker.address, tmp_path)
    with worker(judging(env, judge_server, **REDIRECTIONS)):
        said = _say(
            "import sys; sys.path.insert(0, sys.argv[1])\nimport apps, llmeval_sdk as llmeval\n"
            "apps.configure(); apps.ask(0, 5); llmeval.flush(30); apps.returned(5); apps.say()",
            {**env, **REDIRECTIONS},
        )
    assert said["judged"] == {"groundedness": 5}
    until(lambda: account(broker).queued == 0, "an empty queue")


def test_an_app_needs_no_celery(broker, tmp_path):
    """Handing over imports the client of Redis, on a thread of the SDK's own, and nothing else."""
    env = environment(broker.address, tmp_path)
    said = _say(
        "import sys, threading; sys.path.insert(0, sys.argv[1])\nimport apps, llmeval_sdk as llmeval\n"
        "apps.configure(); early = 'redis' in sys.modules\n"
        "apps.ask(0, 5); llmeval.flush(30)\n"
        "apps.say(early=early, celery='celery' in sys.modules, kombu='kombu' in sys.modules)",
        env,
    )
    assert said["fleet"] == {"handed_over": 5}
    assert (said["early"], said["celery"], said["kombu"]) == (False, False, False)
