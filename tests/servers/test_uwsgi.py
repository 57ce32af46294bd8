"""uWSGI forks in C, without Python's hooks unless it is told to call them."""

import subprocess
import sys
from pathlib import Path

import pytest


UWSGI = Path(sys.executable).with_name("uwsgi")
if not UWSGI.exists():
    pytest.skip("uWSGI is not installed", allow_module_level=True)

from services import ask, eventually, listening, running  # noqa: E402


NAMES = [f"q{number}" for number in range(60)]
AS_THE_PAGE_SAYS = ["--enable-threads", "--py-call-uwsgi-fork-hooks"]
WAYS = {
    "as the page says": AS_THE_PAGE_SAYS,
    "threads": [*AS_THE_PAGE_SAYS, "--threads", "2"],
    "workers that load the app themselves": [*AS_THE_PAGE_SAYS, "--lazy-apps"],
    "without threads and hooks": [],
}


@pytest.mark.parametrize("way", WAYS)
def test_workers_have_ids_of_their_own_and_deliver(sinks, way):
    """Every request of three workers stands once in the store and came once by OTLP."""
    with listening() as listener:
        command = [
            "--http-socket", f"fd://{listener.fileno()}", "--processes", "3", "--master",
            "--die-on-term", "--need-app", "--module", "web:wsgi", *WAYS[way],
        ]  # fmt: skip
        with running(command, sinks, program=[str(UWSGI)]):
            ask(listener, NAMES)
            eventually(lambda: sinks.has(NAMES))
    sinks.check(NAMES)


def test_with_a_spool_the_end_of_a_busy_worker_costs_nothing(sinks):
    """UWSGI calls no exit hook in a worker that it takes for busy; the next process delivers."""
    spool = {"LLMEVAL_SPOOL": str(sinks.folder / "spool"), "LLMEVAL_WORKER": "off"}
    with listening() as listener:
        command = [
            "--http-socket", f"fd://{listener.fileno()}", "--processes", "3", "--master",
            "--die-on-term", "--module", "web:wsgi", *AS_THE_PAGE_SAYS,
        ]  # fmt: skip
        with running(command, sinks, program=[str(UWSGI)], **spool):
            ask(listener, NAMES)
    subprocess.run(
        [sys.executable, "-m", "llmeval_sdk", "agent", "--once"],
        env={**sinks.environment, "LLMEVAL_SPOOL": spool["LLMEVAL_SPOOL"]},
        check=True, capture_output=True, timeout=50,
    )  # fmt: skip
    sinks.check(NAMES)
