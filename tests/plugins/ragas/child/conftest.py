"""Children of the tests: short-lived, and gone when the test ends."""

import asyncio
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest

from llmeval_sdk.plugins.ragas import child as child_module
from llmeval_sdk.plugins.ragas.child import ChildSpec, child


HERE = str(Path(__file__).parent)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Do not wait for what production waits for."""
    monkeypatch.setattr(child_module, "_FIRST_PAUSE", 0.3)
    short = tempfile.mkdtemp(prefix="llmeval")  # the path of a local socket may not be long
    monkeypatch.setattr("tempfile.tempdir", short)
    yield
    deadline = time.monotonic() + 60
    while child_module._started and time.monotonic() < deadline:
        child_module._reap()
        time.sleep(0.01)
    assert not child_module._started
    shutil.rmtree(short)


@pytest.fixture
def spec():
    """Return a function that describes a child; alone, it ends within a moment."""

    def make(handler="open_plain", **fields):
        return ChildSpec(
            handler=f"handlers:{handler}",
            python=sys.executable,
            paths=(HERE,),
            **{"idle_seconds": 0.6, **fields},
        )

    return make


@pytest.fixture
def ask():
    """Return a function that has jobs done one after the other, in a loop of its own."""

    def run(spec, *jobs, seconds=5.0):
        async def all_of_them():
            access = child(spec)
            try:
                return [await access.call(job, seconds=seconds) for job in jobs]
            finally:
                access.close()

        return asyncio.run(all_of_them())

    return run


@pytest.fixture
def gone():
    """Return a function that waits until a process is gone."""

    def wait(process, within=10.0):
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            child_module._reap()
            try:
                os.kill(process, 0)
            except ProcessLookupError:
                return True
            time.sleep(0.02)
        return False

    return wait
