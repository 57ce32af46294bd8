"""OTLP over gRPC where processes fork, exit and are followed by others."""

import os
import socket
import subprocess
import sys
import textwrap

import pytest


pytest.importorskip("grpc", reason="needs grpcio")
from far_ends import unused_port
from grpc_collector import grpc_collector


START = """
import os, sys
import llmeval_sdk as llmeval
from llmeval_sdk.pipeline import runtime

@llmeval.workflow
def answer(name):
    with llmeval.task(name):
        return name

def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def sent():
    stats = runtime.flush(20).exporters["otlp"]
    assert stats.balanced and stats.created == stats.delivered > 0, stats
    return stats
"""


def run(code, address, folder, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("LLMEVAL_", "OTEL_"))}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore:This process:DeprecationWarning", "-c", START + textwrap.dedent(code)],
        env={
            **clean, "OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
            "LLMEVAL_STORE": str(folder / "store.db"), **environment,
        },
        capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def shared_far_end():
    with grpc_collector() as running:
        yield running


@pytest.fixture
def far_end(shared_far_end):
    """Return a gRPC collector that nothing arrived at."""
    shared_far_end.forget()
    return shared_far_end


def test_the_caller_never_loads_grpc(far_end, tmp_path):
    """The delivery thread does, when it sends: not the import, not configure(), not a call."""
    code = """
        import threading
        llmeval.configure(exporters=["otlp"])
        assert "grpc" not in sys.modules
        answer("a")
        sent()
        print([name for name in sys.modules if name == "grpc"])
    """
    assert run(code, far_end.url, tmp_path).strip() == "['grpc']"


def test_children_of_a_process_that_sent_nothing_send(far_end, tmp_path):
    """As under a server that forks its workers."""
    code = """
        llmeval.configure(exporters=["otlp"])
        def work():
            answer("child")
            sent()
            os._exit(0)
        assert [in_child(work) for _ in range(3)] == [0, 0, 0]
        answer("parent")
        sent()
    """
    run(code, far_end.url, tmp_path)
    assert far_end.ask()["spans"].count("child") == 3
    assert far_end.ask()["spans"].count("parent") == 1


def test_children_of_a_process_that_sends_by_and_by_send(far_end, tmp_path):
    """Each has a connection of its own, and the parent's goes on working."""
    code = """
        llmeval.configure(exporters=["otlp"])
        def work():
            answer("child")
            sent()
            os._exit(0)
        for _ in range(5):
            answer("parent")
            sent()
            assert in_child(work) == 0
        answer("parent")
        sent()
    """
    run(code, far_end.url, tmp_path)
    seen = far_end.ask()["spans"]
    assert (seen.count("child"), seen.count("parent")) == (5, 6)


def test_a_child_that_is_forked_in_the_middle_of_a_call_refuses(far_end, tmp_path):
    """Counted by its reason and told, in no time; the parent's call is not disturbed."""
    far_end.ask(hang=1.0)
    code = """
        import time
        from llmeval_sdk.plugins.grpc import exporter as _grpc
        llmeval.configure(exporters=["otlp"])
        answer("parent")
        until = time.monotonic() + 60
        while not _grpc._calling:
            assert time.monotonic() < until
            time.sleep(0.001)
        def work():
            answer("child")
            stats = runtime.flush(5).exporters["otlp"]
            assert stats.balanced and stats.delivered == 0, stats
            assert set(stats.dropped) == {"grpc_after_fork"}, stats
            os._exit(0)
        assert in_child(work) == 0
        sent()
    """
    run(code, far_end.url, tmp_path)
    seen = far_end.ask()["spans"]
    assert "parent" in seen
    assert "child" not in seen


@pytest.mark.parametrize("fault", ["closed", "silent"])
def test_a_dead_collector_does_not_hold_up_the_exit(fault, tmp_path):
    """Neither one that refuses connections nor one that takes them and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1] if fault == "silent" else unused_port()
        code = """
            llmeval.configure(exporters=["otlp"], otlp_timeout=600.0)
            for number in range(200):
                answer("a")
        """
        run(code, f"http://127.0.0.1:{port}", tmp_path)


def test_what_a_dead_collector_did_not_take_is_sent_by_the_next_process(far_end, tmp_path):
    """The spool holds it, as it does with HTTP."""
    spool = {"LLMEVAL_SPOOL": str(tmp_path / "spool")}
    first = 'llmeval.configure(exporters=["otlp"]); answer("kept"); os._exit(0)'
    run(first, f"http://127.0.0.1:{unused_port()}", tmp_path, **spool)
    second = """
        llmeval.configure(exporters=["otlp"])
        answer("own")
        import time
        until = time.monotonic() + 60
        while runtime.flush(5).exporters["otlp"].delivered < 4:
            assert time.monotonic() < until, runtime.stats()
    """
    run(second, far_end.url, tmp_path, **spool)
    seen = far_end.wait(lambda seen: "kept" in seen["spans"])
    assert seen["spans"].count("kept") == 1
