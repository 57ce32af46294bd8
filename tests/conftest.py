"""Every test starts without configuration, and our mistakes are raised, not swallowed."""

import gc
import itertools
import os
import signal
import time
from pathlib import Path

import hypothesis
import pytest

from llmeval_sdk import registry
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.process import app_resource, shield


hypothesis.settings.register_profile("any machine", deadline=None)  # a busy one is no mistake
hypothesis.settings.load_profile("any machine")


KILLED = pytest.StashKey[bool]()
_FOLDERS = itertools.count()
gc.disable()  # until the tests are collected, of which there is no garbage


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in the background with Ctrl-C ignored, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Leave out the tests of absent plugins."""
    installed = {plugin.name for plugin in registry.plugins()}
    for item in items:
        for needed in item.iter_markers("plugin"):
            if not installed.issuperset(needed.args):
                item.add_marker(pytest.mark.skip(reason=f"without {', '.join(needed.args)}"))


def pytest_collection_finish():
    """Let the garbage collector never look through the tests themselves: it takes a second."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """Note that a process of xdist was killed: the tests that it had before it did not run."""
    node.config.stash[KILLED] = node.config.stash.get(KILLED, False) or error is not None


def pytest_sessionfinish(session, exitstatus):
    """Leave the exit status where `.ci/suites.py` asks for it; workers of xdist leave none."""
    exits = os.environ.get("TEST_EXITS_FILE")
    if exits and not hasattr(session.config, "workerinput"):
        if session.config.stash.get(KILLED, False):
            exitstatus = pytest.ExitCode.INTERNAL_ERROR
        with Path(exits).open("a") as file:
            file.write(f"{int(exitstatus)}\n")


@pytest.fixture
def tmp_path(tmp_path_factory):
    """Make an empty folder; pytest's own fixture first looks through those of all earlier tests."""
    return tmp_path_factory.mktemp(f"{next(_FOLDERS)}", numbered=False)


@pytest.fixture(autouse=True)
def _state(_fresh_environment, monkeypatch, tmp_path):
    """Keep what belongs to a user in the test's own folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(autouse=True)
def _fresh_environment(monkeypatch, tmp_path, request):
    """Take the machine's own settings away; what a test stores goes to its own folder."""
    for name in list(os.environ):
        if name.startswith(("LLMEVAL_", "DD_", "OTEL_", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LLMEVAL_STORE", str(tmp_path / "store" / "llmeval.db"))
    monkeypatch.setattr(app_resource, "_noted", None)  # of another test's spans
    registered = dict(registry._own)
    for name, evaluator in registered.items():
        home = getattr(evaluator.evaluate, "__module__", None)
        if evaluator.kind == "heuristic" and home != request.module.__name__:
            registry.forget(name)  # another test file's would run on every span here
    monkeypatch.setattr(app_resource, "_noted", None)
    with runtime.isolated():
        yield
    registry._own.clear()
    registry._own.update(registered)
    shield.raise_again(False)
    shield._last_told.clear()
    shield._told_once.clear()
    shield.notices.clear()


@pytest.fixture
def until():
    """Wait for a condition, at most for some seconds, and return what it gave."""

    def wait(condition, seconds=60.0):
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < deadline, "the condition never came true"
            time.sleep(0.02)
        return value

    return wait
