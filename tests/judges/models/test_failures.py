"""Every way a request can fail has a type, and only what may pass is tried again."""

import asyncio
import json
import socket
import time

import pytest

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.judges.models import OpenAILLM
from llmeval_sdk.model import Message
from llmeval_sdk.process.retries import retry_after
from llmeval_sdk.testing.judge_server import ServedAnswer


def failure(call):
    with pytest.raises(JudgeError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize(
    ("behaviour", "type", "retryable", "calls"),
    [
        ("unavailable", "unavailable", True, 3),
        ("unauthorized", "unauthorized", False, 1),
        ("not_found", "not_found", False, 1),
        ("bad_request", "too_long", False, 1),
        ("redirect", "unavailable", False, 1),
        ("refusal", "refused", False, 1),
        ("filtered", "refused", False, 1),
        ("truncated", "truncated", False, 1),
        ("html", "malformed", False, 1),
        ("reset", "unavailable", True, 3),
        ("hang", "timeout", True, 1),
        ("drip", "timeout", True, 1),
    ],
)
def test_each_failure_has_its_type_and_number_of_calls(
    serve, ask, behaviour, type, retryable, calls
):
    """Only failures that may pass are tried again, three times in all, inside one timeout."""
    server = serve(default=behaviour)
    quick = {"timeout": 1.5} if behaviour in ("hang", "drip") else {}
    error = failure(lambda: ask(server, **quick))
    assert (error.type, error.retryable, server.calls) == (type, retryable, calls)
    assert error.__cause__ is None
    assert error.__context__ is None


def test_an_outage_at_first_contact_ends_after_the_ladder_and_the_attempts(serve, ask):
    """A 500 may be about the way of asking until one has worked: 3 steps once, the last 3 times."""
    server = serve(default="error")
    assert failure(lambda: ask(server)).type == "unavailable"
    assert server.calls == 6


def test_an_outage_of_a_known_server_costs_the_attempts_only(serve, ask):
    """Once a way of asking has worked, a 500 is an outage and is tried again as it is."""
    server = serve("good", default="error")
    ask(server)
    assert failure(lambda: ask(server)).type == "unavailable"
    assert server.calls == 1 + 3


def test_a_passing_failure_is_not_noticed(serve, ask):
    """One 503 and one 429 later the answer comes, in the same call."""
    server = serve("unavailable", "rate_limited", retry_after=0.05)
    assert ask(server).text
    assert server.calls == 3


def test_retry_after_is_waited_for(serve, ask):
    """The next attempt comes no earlier than the server asked."""
    server = serve("rate_limited", retry_after=0.4)
    started = time.monotonic()
    ask(server)
    assert time.monotonic() - started >= 0.4


def test_retry_after_beyond_the_deadline_fails_at_once(serve, ask):
    """Waiting longer than the call may take is pointless: the caller learns how long at once.

    A call that waited, even as long as it may, would hang the test.
    """
    server = serve("rate_limited", retry_after=3_600)
    error = failure(lambda: ask(server, timeout=600.0))
    assert (error.type, error.retryable, error.retry_after) == ("rate_limited", True, 3_600.0)
    assert server.calls == 1


def test_a_slow_attempt_is_given_up_for_another(serve, ask):
    """With a limit per attempt, one that hangs is tried again inside the timeout."""
    server = serve("hang")
    assert ask(server, request_timeout=0.5).text
    assert server.calls == 2


def test_the_timeout_bounds_attempts_and_waits_together(serve, ask):
    """However many attempts, the call ends at its timeout: for all of them it is too short."""
    server = serve(default="hang")
    error = failure(lambda: ask(server, timeout=1.5, request_timeout=0.3, attempts=1_000))
    assert error.type == "timeout"
    assert 2 <= server.calls <= 5


def test_a_closed_port_is_unavailable(ask):
    """No server at all is a failure that may pass."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    llm = OpenAILLM("m", base_url=f"http://127.0.0.1:{port}/v1", backoff=0.001, timeout=5)
    error = failure(lambda: ask(None, llm=llm))
    assert (error.type, error.retryable) == ("unavailable", True)
    assert "(ConnectionRefusedError)" in str(error), "not what lies below it by chance"


def test_an_exhausted_quota_is_not_tried_again(serve, ask):
    """A 429 that says the money is spent will say so again."""
    from llmeval_sdk.testing import judge_server

    server = serve()
    server.reply = lambda seen: judge_server.error(429, "You are broke.", "insufficient_quota")
    error = failure(lambda: ask(server))
    assert (error.type, error.retryable) == ("rate_limited", False)
    assert len(server.requests) == 1


def openai_error(status, message, code=None, kind="invalid_request_error", **more):
    error = {"message": message, "type": kind, "param": None, "code": code, **more}
    return status, {"error": error}


RECORDED = [
    (openai_error(401, "Incorrect API key provided: sk-no***. You can find your API key at "
        "https://platform.openai.com/account/api-keys.", "invalid_api_key"),
        "unauthorized", False),
    (openai_error(401, "Access denied due to invalid subscription key or wrong API endpoint.",
        "401"), "unauthorized", False),
    (openai_error(404, "The model `gpt-0` does not exist or you do not have access to it.",
        "model_not_found"), "not_found", False),
    (openai_error(404, "The API deployment for this resource does not exist.",
        "DeploymentNotFound"), "not_found", False),
    (openai_error(429, "You exceeded your current quota, please check your plan and billing "
        "details.", "insufficient_quota", "insufficient_quota"), "rate_limited", False),
    (openai_error(429, "Your account has reached its billing limit.", "billing_hard_limit_reached",
        "insufficient_quota"), "rate_limited", False),
    (openai_error(402, "Insufficient Balance", "invalid_request_error", "unknown_error"),
        "rate_limited", False),
    (openai_error(429, "Rate limit reached for gpt-4o in organization org-x on tokens per min "
        "(TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s.",
        "rate_limit_exceeded", "tokens"), "rate_limited", True),
    (openai_error(500, "The server had an error while processing your request. Sorry about that!",
        kind="server_error"), "unavailable", True),
    (openai_error(503, "The engine is currently overloaded, please try again later.",
        kind="server_error"), "unavailable", True),
    (openai_error(400, "Invalid prompt: your prompt was flagged as potentially violating our usage "
        "policy. Please try again with a different prompt.", "invalid_prompt"), "refused", False),
    (openai_error(400, "The response was filtered due to the prompt triggering Azure OpenAI's "
        "content management policy.", "content_filter", None, innererror={
            "code": "ResponsibleAIPolicyViolation",
            "content_filter_result": {"violence": {"filtered": True, "severity": "medium"}}}),
        "refused", False),
    (openai_error(400, "This model's maximum context length is 8192 tokens. However, your messages "
        "resulted in 9001 tokens.", "context_length_exceeded"), "too_long", False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("recorded", "type", "retryable"),
    RECORDED,
    ids=[f"{number}-{row[0][0]}-{row[1]}" for number, row in enumerate(RECORDED)],
)
def test_recorded_answers_are_told_apart(serve, ask, recorded, type, retryable):
    """As OpenAI, Azure and OpenAI-compatible servers write them."""
    status, body = recorded
    server = serve()
    server.reply = lambda seen: ServedAnswer(status, json.dumps(body).encode())
    error = failure(lambda: ask(server))
    assert (error.type, error.retryable) == (type, retryable), str(error)
    assert retryable or len(server.requests) == 1


def test_a_content_filter_of_the_server_is_a_refusal(serve, ask):
    """Azure answers 400 where its filter objects; no other way of asking would help."""
    from llmeval_sdk.testing import judge_server

    server = serve()
    server.reply = lambda seen: judge_server.error(400, "Filtered.", "content_filter")
    assert failure(lambda: ask(server)).type == "refused"
    assert len(server.requests) == 1


def test_a_cancelled_call_is_cancelled(serve):
    """Cancelling passes through untouched: it is not a failure of the model."""
    server = serve(default="hang")
    reply = server.reply

    async def go():
        arrived = asyncio.Event()
        loop = asyncio.get_running_loop()
        server.reply = lambda seen: (loop.call_soon_threadsafe(arrived.set), reply(seen))[1]
        llm = OpenAILLM("m", base_url=server.base_url)
        task = asyncio.ensure_future(llm.complete([Message("user", "?")]))
        await asyncio.wait_for(arrived.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after-ms": "300", "retry-after": "9"}, 0.3),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_all_its_spellings(headers, seconds):
    """Seconds, milliseconds and dates are understood, nonsense is nothing."""
    assert retry_after(headers) == seconds
