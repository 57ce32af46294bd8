"""uvicorn spawns its workers and, once they have shut down, lets SIGTERM kill them."""

import subprocess
import sys

import pytest


pytest.importorskip("uvicorn")

from services import ask, listening, running


NAMES = [f"q{number}" for number in range(80)]


def serve(sinks, **environment):
    with listening() as listener:
        command = ["uvicorn", "--workers", "2", "--fd", str(listener.fileno()), "web:asgi"]
        with running([*command, "--log-level", "warning"], sinks, **environment):
            assert len(ask(listener, NAMES)) == 2


def test_workers_that_shut_down_with_the_application_deliver(sinks):
    """One line in the application's lifespan, since nothing of Python runs after the signal."""
    serve(sinks, FLUSH_AT_SHUTDOWN="1")
    sinks.check(NAMES)


def test_with_a_spool_the_signal_costs_nothing(sinks):
    """What the workers had not delivered when the signal came is delivered by the next process."""
    spool = {"LLMEVAL_SPOOL": str(sinks.folder / "spool")}
    serve(sinks, LLMEVAL_WORKER="off", **spool)
    subprocess.run(
        [sys.executable, "-m", "llmeval_sdk", "agent", "--once"],
        env={**sinks.environment, **spool}, check=True, capture_output=True, timeout=50,
    )  # fmt: skip
    sinks.check(NAMES)


@pytest.mark.parametrize("workers", [[], ["--workers", "2"]], ids=["one process", "two workers"])
def test_a_server_that_shuts_down_with_the_application_loses_nothing_of_a_burst(sinks, workers):
    """Also one process, which imports the application when its own handler of SIGTERM is there."""
    names = [f"q{number}" for number in range(400)]
    with listening() as listener:
        command = ["uvicorn", "--fd", str(listener.fileno()), "web:asgi", *workers]
        with running([*command, "--log-level", "warning"], sinks, FLUSH_AT_SHUTDOWN="1"):
            ask(listener, names)
    sinks.check(names)
