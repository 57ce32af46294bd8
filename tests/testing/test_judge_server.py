"""The loopback judge server speaks the OpenAI API for real, and ends cleanly."""

import base64
import http.client
import json
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

import pytest

from llmeval_sdk.testing.judge_server import MODEL, JudgeServer, stand_in


CHAT = {"model": "any", "messages": [{"role": "user", "content": "hello"}]}


def call(server, path, body=None, **headers):
    """Send one request as a plain HTTP client does; return status, headers and body."""
    parts = urlsplit(server.base_url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    try:
        method = "GET" if body is None else "POST"
        payload = None if body is None else json.dumps(body)
        connection.request(
            method, f"/v1{path}", payload, {"Content-Type": "application/json", **headers}
        )
        response = connection.getresponse()
        text = response.read()
        return response.status, dict(response.getheaders()), text
    finally:
        connection.close()


def chat(server, body=None, **headers):
    status, _, text = call(server, "/chat/completions", body or CHAT, **headers)
    return status, json.loads(text)


def test_a_chat_completion_has_the_shape_of_openai_s():
    """Choices, finish reason, usage; `n` is honoured."""
    with JudgeServer(lambda request: "hi there") as server:
        status, reply = chat(server, {**CHAT, "n": 3})
    assert status == 200
    assert [choice["message"]["content"] for choice in reply["choices"]] == ["hi there"] * 3
    assert reply["choices"][0]["finish_reason"] == "stop"
    assert reply["model"] == MODEL == "stand-in"
    usage = reply["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0


def test_a_streamed_answer_comes_in_words_and_ends_with_the_tokens():
    """Server-sent events, as clients of OpenAI read them."""
    with JudgeServer(lambda request: "hi there") as server:
        _, headers, text = call(server, "/chat/completions", {**CHAT, "stream": True})
    assert headers["Content-Type"] == "text/event-stream"
    *events, done = text.decode().strip().split("\n\n")
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert [delta.get("content") for delta in deltas] == ["hi ", "there", None]
    assert chunks[-1]["usage"]["total_tokens"] > 0
    assert done == "data: [DONE]"


def test_a_tool_call_carries_the_answer_where_a_tool_is_offered():
    """As a server that supports tools does."""
    tool = {"type": "function", "function": {"name": "submit", "parameters": {"type": "object"}}}
    with JudgeServer(lambda request: {"a": 1}) as server:
        _, reply = chat(server, {**CHAT, "tools": [tool]})
    function = reply["choices"][0]["message"]["tool_calls"][0]["function"]
    assert function == {"name": "submit", "arguments": '{"a": 1}'}


def test_embeddings_come_as_numbers_or_base64():
    """Both encodings hold the same vectors; texts that share words point the same way."""
    body = {"model": "e", "input": ["red roof", "roof red", "blue sea"]}
    with JudgeServer() as server:
        plain = json.loads(call(server, "/embeddings", body)[2])["data"]
        packed = json.loads(call(server, "/embeddings", {**body, "encoding_format": "base64"})[2])
    first, second, third = (row["embedding"] for row in plain)
    assert len(first) == 256
    assert first == second != third
    raw = base64.b64decode(packed["data"][0]["embedding"])
    assert struct.unpack("<256f", raw) == pytest.approx(first)


def test_models_lists_the_stand_in_and_other_paths_are_not_found():
    """Clients that look before they ask find one model."""
    with JudgeServer() as server:
        status, _, text = call(server, "/models")
        assert (status, json.loads(text)["data"][0]["id"]) == (200, MODEL)
        assert call(server, "/nothing", {})[0] == 404


def test_requests_are_recorded():
    """Path, headers and body of each, in order; `calls` counts the chats."""
    with JudgeServer() as server:
        chat(server, Authorization="Bearer abc")
        call(server, "/models")
        assert server.calls == 1
        assert [seen.path for seen in server.requests] == ["/v1/chat/completions", "/v1/models"]
        assert server.chats[0].headers["authorization"] == "Bearer abc"
        assert server.chats[0].body == CHAT


@pytest.mark.parametrize(
    ("behaviour", "status"),
    [
        ("good", 200), ("malformed", 200), ("refusal", 200), ("truncated", 200), ("html", 200),
        ("filtered", 200), ("rate_limited", 429), ("error", 500), ("unavailable", 503),
        ("unauthorized", 401), ("not_found", 404), ("bad_request", 400), ("redirect", 302),
    ],
)  # fmt: skip
def test_each_behaviour_has_its_status(behaviour, status):
    """A script entry is used once, then the default."""
    with JudgeServer(lambda request: "fine", script=[behaviour], retry_after=7) as server:
        found, headers, _ = call(server, "/chat/completions", CHAT)
        assert found == status
        assert headers.get("Retry-After") == ("7" if behaviour == "rate_limited" else None)
        assert chat(server)[0] == 200


def test_a_script_may_hold_answers_and_grow():
    """A function of the request answers one call; entries can be added while it runs."""
    with JudgeServer(script=[lambda request: request["messages"][0]["content"] * 2]) as server:
        assert chat(server)[1]["choices"][0]["message"]["content"] == "hellohello"
        server.script.append("error")
        assert chat(server)[0] == 500


def test_slow_is_slow():
    """The reply comes after the delay."""
    with JudgeServer(default="slow", delay=0.15) as server:
        started = time.monotonic()
        assert chat(server)[0] == 200
        assert time.monotonic() - started >= 0.15


def test_a_wrong_key_is_refused_and_quoted():
    """As careless servers do, so that clients can prove that they pass no key on."""
    with JudgeServer(key="right") as server:
        assert chat(server, Authorization="Bearer right")[0] == 200
        status, reply = chat(server, Authorization="Bearer wrong-one")
    assert status == 401
    assert "wrong-one" in reply["error"]["message"]


def judge_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("judge-server")]


def test_it_leaves_no_thread_and_no_port(until):
    """Idle, hanging and dripping connections all end with the server."""
    before = len(judge_threads())
    with JudgeServer(script=["good", "hang", "drip"]) as server:
        parts = urlsplit(server.base_url)
        connections = []
        for _ in range(3):
            connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
            connection.request("POST", "/v1/chat/completions", json.dumps(CHAT))
            connections.append(connection)
        until(lambda: server.calls == 3, 60)
        assert len(judge_threads()) >= before + 3
    assert len(judge_threads()) == before
    for connection in connections:
        connection.close()
    with pytest.raises(OSError):
        call(server, "/models")


def test_answers_come_without_delayed_acknowledgement():
    """The server tells its sockets not to hold small packets back, which costs steps of 40 ms."""
    with JudgeServer(lambda request: "x") as server:
        parts = urlsplit(server.base_url)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
        connection.request("POST", "/v1/chat/completions", json.dumps(CHAT))
        connection.getresponse().read()
        (kept,) = server._server._open
        assert kept.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        connection.close()


def test_the_stand_in_says_that_it_is_one():
    """Prompts that are none of ours get no verdict from it."""
    assert stand_in(CHAT) == "stand-in: this prompt is none of a built-in judge"
    schema = {"type": "object", "properties": {"why": {"type": "string"}, "n": {"type": "integer"}}}
    wanted = {"type": "json_schema", "json_schema": {"schema": schema}}
    filled = stand_in({**CHAT, "response_format": wanted})
    assert filled["why"].startswith("stand-in:")
    assert filled["n"] == 0


def test_the_module_serves_until_it_is_interrupted():
    """`python -m llmeval_sdk.testing.judge_server` prints its address and answers there."""
    import signal

    process = subprocess.Popen(
        [sys.executable, "-m", "llmeval_sdk.testing.judge_server"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/v1", line)[1])
        assert "no model" in line
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/v1/models")
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.stdout.close()
        process.wait(10)
