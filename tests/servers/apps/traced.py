"""A service's own code: configured and already traced where it is imported, before any fork."""

import concurrent.futures
import multiprocessing.process
import os
import signal
import threading
import time


def _host():
    """Return what a guest in this process must leave alone."""
    return {
        "os._exit": os._exit,
        "os.fork": os.fork,
        "Thread.start": threading.Thread.start,
        "Thread.run": threading.Thread.run,
        "ThreadPoolExecutor": concurrent.futures.ThreadPoolExecutor,
        "ThreadPoolExecutor.submit": concurrent.futures.ThreadPoolExecutor.submit,
        "ProcessPoolExecutor": concurrent.futures.ProcessPoolExecutor,
        "BaseProcess._bootstrap": multiprocessing.process.BaseProcess._bootstrap,
        "signal.signal": signal.signal,
    }


def _handlers():
    return {number: signal.getsignal(number) for number in signal.valid_signals()}


_before = _host()

import llmeval_sdk as llmeval  # noqa: E402


@llmeval.retrieval
def find(name):
    return [{"content": f"about {name}", "chunk_id": "1", "score": 0.5}]


@llmeval.workflow
def answer(name):
    find(name)
    llmeval.submit_evaluation(label="mine", value=0.5)
    return "yes"


def serve(name):
    """Answer one request; return what was changed in this process, which is nothing."""
    handlers = _handlers()
    answer(name)
    time.sleep(0.005)  # the I/O of a real request
    changed = [name for name, value in _host().items() if value != _before[name]]
    return changed + [number for number, value in _handlers().items() if value != handlers[number]]


if not os.environ.get("WITHOUT_CONFIGURE"):  # then the first call sets up what the worker loads
    llmeval.configure()
if os.environ.get("TRACE_AT_IMPORT"):
    answer(f"import-{os.getpid()}")
