"""Signals and the collector may run anything in the middle of our code."""

import pytest
from strangers import installed


def test_a_signal_handler_that_traces_deadlocks_nothing(app):
    """A signal traces while the main thread traces: exact account, no deadlock.

    It comes after 0.7 ms of processor time, which leaves a busy machine's process some of its own.
    """
    ended = app(
        """
count = 0
submit = llmeval.submit_evaluation
def handler(*_):
    global count
    count += 1
    answer("signal")
    submit(label="mine", value=0.5)
signal.signal(signal.SIGVTALRM, handler)
class Nothing:
    name = "nothing"
    received = 0
    def export(self, batch): Nothing.received += len(batch)
    def flush(self, timeout): pass
    def close(self, timeout): pass
llmeval.configure(exporters=[Nothing()])
signal.setitimer(signal.ITIMER_VIRTUAL, 0.0007, 0.0007)
calls = 0
while count < 500:
    answer("main"); calls += 1
signal.setitimer(signal.ITIMER_VIRTUAL, 0)
stats = llmeval.flush(60)
each = stats.exporters["nothing"]
print(stats.complete, each.balanced, each.delivered == Nothing.received, stats.spans == calls + count)
""",
        timeout=120,
    )
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert ended.out == "True True True True\n"


LIMITS = """
import signal

class SoftTimeLimit(Exception):
    pass

def celerys(signum, frame):
    raise SoftTimeLimit()

class DeathPenalty:
    def handle(self, signum, frame):
        raise SoftTimeLimit("the task exceeded its time")

class OneShot:
    def __call__(self, signum, frame):
        signal.signal(signum, signal.SIG_IGN)
        raise SoftTimeLimit()
"""
HANDLERS = {
    "app": "def handler(*_): raise SoftTimeLimit",
    "celery": "handler = queue_limits.celerys",
    "rq": "handler = queue_limits.DeathPenalty().handle",
    "one shot": "handler = queue_limits.OneShot()",
}


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_an_exception_of_a_signal_handler_always_reaches_the_app(app, tmp_path, handler):
    """A soft time limit that strikes inside our code is not ours, wherever its handler stands."""
    installed(tmp_path, LIMITS, "queue_limits")
    ended = app(
        f"import queue_limits\nfrom queue_limits import SoftTimeLimit\n{handler}\n"
        """
import random
llmeval.configure(exporters=["memory"])
seen, lost, delays = 0, 0, random.Random(1)
chunks = [{"content": "x" * 100, "chunk_id": str(n), "score": 0.5} for n in range(50)]
@llmeval.workflow
def work(chunks):
    llmeval.annotate(extractions=[{"value": "a", "chunk_number": n} for n in range(50)], metadata={"a": list(range(300))})
    return chunks
work(chunks)
def work_for_a_second():  # Python 3.13 lets one raised at the end of a loop pass the try around it
    until = time.monotonic() + 1
    while time.monotonic() < until:
        work(chunks)
for _ in range(1_000):
    try:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, delays.uniform(0.0002, 0.003))
        work_for_a_second()
        lost += 1
    except SoftTimeLimit:
        seen += 1
print(seen, lost)
""",
        timeout=120,
        PYTHONPATH=str(tmp_path / "site-packages"),
    )
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert ended.out == "1000 0\n"


def test_the_collector_may_trace_inside_our_code(app):
    """Finalisers that trace run wherever the collector strikes; in our own threads they do not trace."""
    ended = app(
        """
import gc
gc.set_threshold(20)
made = elsewhere = 0
class Noisy:
    def __init__(self): self.me = self
    def __del__(self):
        global made, elsewhere
        made += 1
        elsewhere += threading.current_thread() is not threading.main_thread()
        answer("collector")
llmeval.configure(exporters=["memory"])
for n in range(20_000):
    Noisy()
    answer("main")
gc.collect()
stats = llmeval.flush(60)
print(stats.complete, stats.spans == 20_000 + made - elsewhere, made == 20_000)
""",
        timeout=120,
    )
    assert (ended.code, ended.quiet) == (0, True), ended.err
    assert ended.out == "True True True\n"
