"""gunicorn forks its workers from a process that has already traced, and recycles them."""

import pytest


pytest.importorskip("gunicorn")

from services import ask, listening, running


WORKERS = {
    "sync": ["-k", "sync"],
    "gthread": ["-k", "gthread", "--threads", "4"],
    "gthread, recycled": ["-k", "gthread", "--threads", "4", "--max-requests", "15"],
}


def test_a_master_that_forks_while_its_first_call_loads_has_whole_workers(sinks):
    """The master traced at import, without a configuration, and forks at once."""
    names = [f"q{number}" for number in range(20)]
    environment = {"TRACE_AT_IMPORT": "1", "WITHOUT_CONFIGURE": "1"}
    with listening() as listener:
        command = ["gunicorn", "--preload", "-w", "4", "-b", f"fd://{listener.fileno()}"]
        with running([*command, "web:wsgi"], sinks, **environment) as master:
            ask(listener, names)
    assert master.returncode == 0
    sinks.check([f"import-{master.pid}", *names])


@pytest.mark.parametrize("kind", WORKERS)
def test_preloaded_workers_deliver(sinks, kind):
    """What the master traced is the master's; each worker delivers its own, also when recycled."""
    names = [f"q{number}" for number in range(80)]
    with listening() as listener:
        command = ["gunicorn", "--preload", "-w", "2", "-b", f"fd://{listener.fileno()}"]
        with running([*command, *WORKERS[kind], "web:wsgi"], sinks, TRACE_AT_IMPORT="1") as master:
            processes = ask(listener, names)
    assert master.returncode == 0
    assert len(processes) >= (3 if "recycled" in kind else 2)
    sinks.check([f"import-{master.pid}", *names])
