"""The active span follows tasks by itself, and threads and processes on request."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.testing import capture, fixed_ids
from llmeval_sdk.tracing import ContextExecutor, extract, inject, wrap_context


@llmeval.task
def step(name):
    return name


def parents(seen):
    by_id = {span.span_id: span.name for span in seen.spans}
    return {span.request: by_id.get(span.parent_id) for span in seen.spans if span.name == "step"}


def test_tasks_of_asyncio_keep_their_parent():
    """Concurrent requests do not mix: each step belongs to the request it was started in."""

    async def later(name):
        await asyncio.sleep(0)
        step(name)

    async def main():
        async def request(name):
            with llmeval.workflow(f"request {name}"):
                await asyncio.gather(later(f"{name}1"), later(f"{name}2"))

        await asyncio.gather(request("a"), request("b"))

    with capture() as seen:
        asyncio.run(main())
        seen.drain()
    assert parents(seen) == {
        "a1": "request a",
        "a2": "request a",
        "b1": "request b",
        "b2": "request b",
    }


def test_threads_keep_it_by_a_helper():
    """A wrapped function and the context-keeping executor run under the span they came from."""
    with capture() as seen:
        with llmeval.workflow("request"):
            thread = threading.Thread(target=wrap_context(step), args=("wrapped",))
            thread.start()
            with ContextExecutor(2) as pool:
                list(pool.map(step, ["mapped"]))
                pool.submit(step, "submitted").result()
            with ThreadPoolExecutor(1) as pool:
                pool.submit(step, "lost").result()
            thread.join()
        seen.drain()
    assert parents(seen) == {
        "wrapped": "request",
        "mapped": "request",
        "submitted": "request",
        "lost": None,
    }


def of_asyncio(main):
    """Run a coroutine as most apps do."""
    asyncio.run(main())


def of_uvloop(main):
    """Run a coroutine in a loop of uvloop, in each of its releases and on every Python."""
    loop = pytest.importorskip("uvloop").new_event_loop()
    try:
        loop.run_until_complete(main())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


@pytest.mark.parametrize("run", [of_asyncio, of_uvloop])
def test_one_line_keeps_it_in_the_default_executor_of_a_loop(run):
    """Concurrent requests do not mix, and each loop ends its executor, also one after another."""

    async def request(loop, name):
        with llmeval.workflow(f"request {name}"):
            calls = [loop.run_in_executor(None, step, f"{name}{n}") for n in range(20)]
            await asyncio.gather(*calls)

    async def main():
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ContextExecutor(4, thread_name_prefix="kept"))
        await asyncio.gather(request(loop, "a"), request(loop, "b"))

    for _ in range(2):
        with capture() as seen:
            run(main)
            seen.drain()
        assert parents(seen) == {
            f"{name}{n}": f"request {name}" for name in "ab" for n in range(20)
        }
        assert len({span.trace_id for span in seen.spans}) == 2
        assert not [each for each in threading.enumerate() if each.name.startswith("kept")]


def test_traceparent_carries_a_trace_to_another_process():
    """What inject wrote, extract makes the parent, flags included."""
    with capture() as seen:
        headers = {}
        inject(headers)
        assert headers == {}
        with llmeval.workflow("caller") as caller:
            inject(headers)
        with extract(headers), llmeval.workflow("callee"):
            pass
        seen.drain()
    assert headers["traceparent"] == f"00-{caller.trace_id}-{caller.span_id}-01"
    callee = seen.span("callee")
    assert (callee.trace_id, callee.parent_id) == (caller.trace_id, caller.span_id)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "00-0-0-01",
        f"00-{'0' * 32}-{'1' * 16}-01",
        f"ff-{'1' * 32}-{'1' * 16}-01",
        None,
        b"\xff",
    ],
)
def test_a_bad_traceparent_begins_a_new_trace(text):
    """Headers that cannot be read change nothing."""
    with capture() as seen:
        with extract({"traceparent": text}), llmeval.workflow("w"):
            pass
        seen.drain()
    assert seen.span("w").parent_id is None


def test_the_session_travels_in_the_baggage():
    """Beside what others carry there, encoded, and on through a process without spans of ours."""
    with capture() as seen:
        headers = {"baggage": "tenant=t1;secret, session.id=old"}
        with llmeval.workflow("caller", session_id="chat 7, über"):
            inject(headers)
        with extract(headers):
            onward = {}
            inject(onward)
        with extract(onward), llmeval.workflow("callee"):
            pass
        with extract(headers), llmeval.workflow("own", session_id="mine"):
            pass
        seen.drain()
    assert headers["baggage"] == "tenant=t1;secret,session.id=chat%207%2C%20%C3%BCber"
    assert onward["traceparent"] == headers["traceparent"]
    assert seen.span("callee").session_id == "chat 7, über"
    assert seen.span("own").session_id == "mine"


@pytest.mark.parametrize(
    ("baggage", "session"),
    [
        ("session.id=s;ttl=3", "s"),
        (b"a=1,session.id = s", "s"),
        ("session.id=" + "s" * 5_000, "s" * 200),
        ("session.id=", None),
        ("session.id", None),
        (",,=,;", None),
        (None, None),
    ],
)
def test_baggage_of_others_is_read_as_far_as_it_can_be(baggage, session):
    """Names and values with space, properties or nothing; header names in any case."""
    headers = {"TraceParent": f"00-{'1' * 32}-{'2' * 16}-01", "Baggage": baggage}
    with capture() as seen:
        with extract(headers), llmeval.workflow("w"):
            pass
        seen.drain()
    assert seen.span("w").session_id == session
    assert seen.span("w").parent_id == "2" * 16


def test_nothing_is_injected_where_nothing_is_recorded():
    """Neither ids nor a session inside ``disabled()``."""
    with capture():
        headers = {}
        with llmeval.workflow("w", session_id="s"), llmeval.disabled():
            inject(headers)
    assert headers == {}


def test_an_unsampled_parent_stays_unsampled():
    """A trace that was sampled out upstream is neither recorded nor sampled again here."""
    with capture() as seen:
        headers = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-00"}
        with extract(headers), llmeval.workflow("w"):
            step("x")
            onward = {}
            inject(onward)
        seen.drain()
    assert seen.spans == []
    assert onward["traceparent"].endswith("-00")


def test_ids_are_w3c_and_can_be_fixed_in_tests():
    """Trace ids have 32 and span ids 16 hex digits; fixed ids count from one."""
    with capture() as seen:
        with fixed_ids(), llmeval.workflow("fixed"):
            pass
        with llmeval.workflow("random"):
            pass
        seen.drain()
    assert (seen.span("fixed").trace_id, seen.span("fixed").span_id) == (f"{1:032x}", f"{1:016x}")
    assert len(seen.span("random").trace_id) == 32
    assert len(seen.span("random").span_id) == 16


def test_half_of_the_traces_can_be_left_out():
    """Head sampling drops whole traces, children included."""
    with capture(trace_sample_rate=0.5) as seen:
        for n in range(400):
            with llmeval.workflow("w"):
                step(str(n))
        seen.drain()
    roots = [span for span in seen.spans if span.name == "w"]
    assert 120 < len(roots) < 280
    assert len(seen.spans) == 2 * len(roots)


def test_a_local_root_is_marked_when_it_starts():
    """No parent, or one in another process, makes a local root; a step, on any thread, is none."""
    with capture() as seen:
        with llmeval.workflow("whole"):
            headers = {}
            inject(headers)
            thread = threading.Thread(target=wrap_context(step), args=("inside",))
            thread.start()
            thread.join()
        with extract(headers), llmeval.workflow("called") as called:
            step("below")
        assert called.is_local_root
        seen.drain()
    marked = {
        span.request or span.name: (span.is_local_root, span.outside_parent) for span in seen.spans
    }
    assert marked == {
        "whole": (True, False),
        "inside": (False, False),
        "called": (True, True),
        "below": (False, False),
    }
