"""A request that fails is tried again where that may help, inside one deadline, and says why."""

import asyncio
import io
import json
import logging
import socket
import time
import traceback

import pytest
from decisions_asked import CHANCES, DATA, KEY, QUESTIONS, WIRES, YES_NO, numbers

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.judges.models.decisions import HttpDecisions
from llmeval_sdk.testing.judge_server import ServedAnswer


FAILURES = {
    "rate_limited": ("rate_limited", True, 3),
    "unavailable": ("unavailable", True, 3),
    "overloaded": ("unavailable", True, 3),
    "html_504": ("unavailable", True, 3),
    "error": ("unavailable", True, 3),
    "reset": ("unavailable", True, 3),
    "unauthorized": ("unauthorized", False, 1),
    "not_found": ("not_found", False, 1),
    "invalid_object": ("bad_request", False, 1),
    "invalid_list": ("bad_request", False, 1),
    "too_long": ("too_long", False, 1),
    "hang": ("timeout", True, 1),
    "drip": ("timeout", True, 1),
}


def failure(call):
    with pytest.raises(JudgeError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fault", FAILURES)
def test_each_failure_has_its_type_and_number_of_requests(serve, ask, wire, fault):
    """Only what may pass is tried again: three times in all, as for judge models."""
    kind, retryable, requests = FAILURES[fault]
    server = serve(default=fault, retry_after=0.01)
    quick = {"timeout": 0.6} if fault in ("hang", "drip") else {}
    error = failure(lambda: ask(server, wire, [YES_NO], **quick))
    assert (error.type, error.retryable, len(server.decisions)) == (kind, retryable, requests)
    assert error.__cause__ is None
    assert error.__context__ is None


@pytest.mark.parametrize("wire", WIRES)
def test_a_passing_failure_is_not_noticed(serve, ask, wire):
    """A 429, a 503 and a 529 later the answers come, in the same call."""
    server = serve("rate_limited", "unavailable", "overloaded", retry_after=0.01)
    decision = ask(server, wire, [YES_NO], attempts=4)
    assert numbers(decision) == {"groundedness": CHANCES["groundedness"]}
    assert decision.requests == len(server.decisions) == 4


def test_retry_after_is_waited_for_inside_the_deadline(serve, ask):
    """No earlier than the server asked; where that is too late, the failure comes at once.

    A call that waited, even as long as it may, would hang the test.
    """
    server = serve("overloaded", retry_after=0.4)
    begun = time.monotonic()
    ask(server, "systemone")
    assert time.monotonic() - begun >= 0.4
    server = serve(default="rate_limited", retry_after=3_600)
    error = failure(lambda: ask(server, "systemone", timeout=600.0))
    assert (error.type, error.retry_after, len(server.decisions)) == ("rate_limited", 3_600.0, 1)


def test_one_deadline_holds_for_all_requests_of_a_call(serve, ask):
    """However many questions and attempts, and whatever was answered until then stands."""
    ask(serve(), "logprobs")
    server = serve("good", default="hang")
    decision = ask(server, "logprobs", timeout=2.0, request_timeout=0.3, attempts=1_000)
    assert numbers(decision) == {
        "groundedness": CHANCES["groundedness"], "tone": "timeout", "helpful": "timeout"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("invalid_object", "The question is invalid."),
        ("invalid_list", "body.questions: Field required"),
        ("unavailable", "Decision inference is unavailable."),
        ("overloaded", "Overloaded."),
        ("unauthorized", "check the API key"),
        ("not_found", "the path of the base URL"),
        ("html_504", "answered 504"),
    ],
)
def test_what_a_server_says_is_passed_on(serve, ask, fault, says):
    """However it spells its errors; markup is no message, and the input it repeats is not shown."""
    server = serve(default=fault, retry_after=0.01)
    error = failure(lambda: ask(server, "systemone"))
    assert says in str(error)
    assert "all of the request" not in str(error)
    assert "<" not in str(error)


@pytest.mark.parametrize(
    "body",
    [
        {"detail": {"detail": {"detail": {"detail": {"detail": "deep"}}}}},
        {"detail": [[["x"]]]},
        {"detail": {"loc": 3, "msg": ["x"]}},
        {"errors": [{"code": 3, "message": "x" * 10_000}]},
        {"error": None, "message": {"a": 1}},
        ["x"],
        "x",
        7,
        None,
    ],
    ids=str,
)
def test_an_error_of_any_form_is_an_error(serve, ask, body):
    """Nothing that a server sends as an error can do more than fail, and messages are short."""
    server = serve()
    server.reply = lambda seen: ServedAnswer(422, json.dumps(body).encode())
    error = failure(lambda: ask(server, "openai"))
    assert error.type == "bad_request"
    assert len(str(error)) < 500


def nested(depth):
    return b'{"detail":' * depth + b"1" + b"}" * depth


@pytest.mark.parametrize("status", [200, 422])
def test_a_body_nested_without_end_is_an_error(serve, ask, status):
    """Neither decoding it nor reading its message goes any deeper than it has to."""
    server = serve()
    server.reply = lambda seen: ServedAnswer(status, nested(100_000))
    error = failure(lambda: ask(server, "openai"))
    assert error.type == ("malformed" if status == 200 else "bad_request")


@pytest.mark.parametrize("wire", WIRES)
def test_the_key_is_in_no_error(serve, ask, wire):
    """A 401 that quotes the key is passed on without it, in message, chain and traceback."""
    server = serve(key="another-key-of-the-server")
    error = failure(lambda: ask(server, wire))
    assert error.type == "unauthorized"
    assert "provided: ***" in str(error)
    shown = "".join(traceback.format_exception(error)) + repr(error.__dict__)
    assert KEY not in shown


@pytest.mark.parametrize("wire", WIRES)
def test_neither_key_nor_content_is_shown(serve, model, wire):
    """Not in a repr, an attribute, or a log of ours or of the client's at DEBUG."""
    server = serve("unauthorized", "good")
    asked = model(server, wire)
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        failure(lambda: asyncio.run(asked.decide(DATA, [YES_NO])))
        asyncio.run(asked.decide(DATA, [YES_NO]))
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    assert "127.0.0.1" in stream.getvalue()  # something was logged at all
    assert KEY not in stream.getvalue()
    shown = [repr(asked), repr(vars(asked))]
    for value in vars(asked).values():
        shown += [repr(getattr(value, name, None)) for name in getattr(value, "__slots__", ())]
    assert KEY not in "\n".join(shown)


@pytest.mark.parametrize("wire", WIRES)
def test_what_the_environment_says_to_openai_goes_to_nobody_else(serve, ask, monkeypatch, wire):
    """Its client sends organization, project and own headers to any server; ours does not."""
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "of-openai")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: of-openai")
    server = serve()
    ask(server, wire)
    sent = {name for name, value in server.decisions[0].headers.items() if value == "of-openai"}
    if wire == "systemone":
        assert sent == set()
        assert not any("stainless" in name for name in server.decisions[0].headers)
    else:  # servers that take OpenAI's place, such as a gateway
        assert {"openai-organization", "openai-project"} <= sent


def test_a_closed_port_is_unavailable():
    """No server at all is a failure that may pass."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    model = HttpDecisions("systemone/m", base_url=f"http://127.0.0.1:{port}/v1", backoff=0.001)
    error = failure(lambda: asyncio.run(model.decide(DATA, QUESTIONS)))
    assert (error.type, error.retryable) == ("unavailable", True)


def test_redirects_are_not_followed(serve, ask):
    """Neither key nor content goes where a server points."""
    target, server = serve(), serve()
    where = {"Location": f"{target.base_url}/decisions"}
    server.reply = lambda seen: ServedAnswer(307, b"", where)
    assert "redirects are not followed" in str(failure(lambda: ask(server, "openai")))
    assert target.requests == []


def test_a_cancelled_call_is_cancelled(serve, model):
    """Cancelling passes through untouched: it is not a failure of the model."""
    server = serve(default="hang")
    reply = server.reply

    async def go():
        arrived = asyncio.Event()
        loop = asyncio.get_running_loop()
        server.reply = lambda seen: (loop.call_soon_threadsafe(arrived.set), reply(seen))[1]
        task = asyncio.ensure_future(model(server, "openai").decide(DATA, QUESTIONS))
        await asyncio.wait_for(arrived.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())


def test_one_client_per_loop_and_none_left_when_it_ends(serve, model):
    """Calls in one loop share a client, which is closed with it."""
    server = serve()
    asked = model(server, "openai")

    async def several():
        await asked.warm()
        await asyncio.gather(*(asked.decide(DATA, QUESTIONS) for _ in range(4)))
        (held,) = asked._clients._held.values()
        return held.client

    assert asyncio.run(several()).is_closed()
    assert not asked._clients._held
