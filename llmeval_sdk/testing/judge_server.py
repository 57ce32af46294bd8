"""An OpenAI-compatible server on the loopback interface, for tests and demos without a model.

By default it answers our own judges by rules on shared words; this is the stand-in, and every
rationale says so. For tests it can do to a client whatever a server in production may do::

    with JudgeServer(script=["rate_limited", "good"]) as server:
        llm = OpenAILLM("stand-in", base_url=server.base_url)

``python -m llmeval_sdk.testing.judge_server`` serves the stand-in until it is interrupted.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from llmeval_sdk import registry
from llmeval_sdk.judges.prompt import Rule, Section, chunks_of, edge_line, share, words
from llmeval_sdk.model import STAND_IN


if TYPE_CHECKING:
    from typing_extensions import Self


__all__ = ["MODEL", "Answer", "Behaviour", "JudgeServer", "ReceivedRequest", "stand_in"]


# Reads what a judge was asked, as the rubric's sections: for stand-ins and tests.

_HEADER = re.compile(r"^<<begin (.+) ([0-9a-f]{32})>>$", re.MULTILINE)


def sections_of(text: str) -> list[Section]:
    """Return the sections of a rendered user message."""
    sections: list[Section] = []
    position = 0
    while header := _HEADER.search(text, position):
        name, boundary = header[1], header[2]
        end = text.find(f"\n{edge_line('end', name, boundary)}", header.end())
        if end < 0:
            break
        sections.append(Section(name, text[header.end() + 1 : max(end, header.end() + 1)]))
        position = end + 1
    return sections


# What the judge server answers: the rules of the stand-in, and one function per behaviour.
#
# The stand-in is for demos and tests and replaces a judge model by rules on shared words. It
# recognises a judge's prompt by its ``Task:`` line, reads the sections, and answers by the rule
# that the judge itself declares (`judges.prompt`). Every rationale begins with ``stand-in:``,
# so that nobody takes it for a model's verdict.

MODEL = STAND_IN

_TASK = re.compile(r"^Task: ([A-Za-z0-9_]+)/", re.MULTILINE)


def stand_in(request: Mapping[str, Any]) -> dict[str, Any] | str:
    """Answer a chat completion request as one of our judges would have it answered."""
    turns = [(turn.get("role"), str(turn.get("content") or "")) for turn in request["messages"]]
    system = "\n".join(text for role, text in turns if role == "system")
    user = "\n".join(text for role, text in turns if role == "user")
    sections = {section.name: section.text for section in sections_of(user)}
    task = _TASK.search(system)
    rule: Rule | None = getattr(registry.known(task[1]), "stand_in", None) if task else None
    if rule is not None:
        return rule(sections)
    schema = _schema(request, system)
    if schema is None:
        return "stand-in: this prompt is none of a built-in judge"
    filled: dict[str, Any] = _fill(schema, share(sections.get("response", ""), chunks_of(sections)))
    return filled


def _schema(request: Mapping[str, Any], system: str) -> Mapping[str, Any] | None:
    """Find the schema that a request asks for, wherever the ladder has put it."""
    wanted_format = request.get("response_format") or {}
    if "json_schema" in wanted_format:
        schema: Mapping[str, Any] = wanted_format["json_schema"]["schema"]
        return schema
    if request.get("tools"):
        parameters: Mapping[str, Any] = request["tools"][0]["function"]["parameters"]
        return parameters
    _, found, text = system.rpartition("this JSON schema: ")
    if not found:
        return None
    decoded: Mapping[str, Any] = json.JSONDecoder().raw_decode(text)[0]
    return decoded


def _fill(schema: Mapping[str, Any], share: float) -> Any:  # noqa: PLR0911
    """Fill in any form: the better the words match, the earlier the choice."""
    kind = schema.get("type")
    if kind == "object":
        return {key: _fill(inner, share) for key, inner in schema.get("properties", {}).items()}
    if kind == "array":
        return []
    if kind == "number":
        return round(share, 3)
    if kind == "integer":
        return round(share)
    if kind == "boolean":
        return share >= 0.5
    choices = schema.get("enum")
    if choices:
        return choices[0 if share >= 0.5 else -1]
    return f"stand-in: {share:.0%} of the words of the response are in the chunks"


Answer = Callable[[Mapping[str, Any]], "str | Mapping[str, Any]"]
"""Gets a chat completion request; returns the reply's text, or an object to be sent as JSON."""

Behaviour = Literal[
    "good", "malformed", "fenced", "refusal", "filtered", "truncated",
    "tool_only", "json_object_only", "text_only", "schema_500", "reasoning",
    "rate_limited", "error", "unavailable", "unauthorized", "not_found", "bad_request",
    "redirect", "html", "slow", "drip", "hang", "reset",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ServedAnswer:
    """One HTTP answer; ``manner`` says how it is sent."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    manner: Literal["at once", "slow", "drip", "hang", "reset"] = "at once"


def behave(  # noqa: PLR0911
    behaviour: str, request: Mapping[str, object], answer: Answer, retry_after: float
) -> ServedAnswer:
    """Answer one chat completion request in one of the ways of `Behaviour`."""
    if behaviour in ("slow", "drip", "hang", "reset"):
        good = completion(request, answer)
        return ServedAnswer(200, _json(good), manner=behaviour)  # type: ignore[arg-type]
    if behaviour in _ERRORS:
        status, kind, message = _ERRORS[behaviour]
        headers = {"Retry-After": f"{retry_after:g}"} if behaviour == "rate_limited" else {}
        return error(status, message, kind, headers)
    if behaviour == "redirect":
        return ServedAnswer(302, b"", {"Location": "http://169.254.169.254/latest/meta-data"})
    if behaviour == "html":
        return ServedAnswer(200, b"<html>Please sign in.</html>", content_type="text/html")
    refused = _not_taken(behaviour, request)
    if refused is not None:
        return refused
    reply = _changed(behaviour, completion(request, answer))
    if request.get("stream"):
        return ServedAnswer(200, _streamed(reply), content_type="text/event-stream")
    return ServedAnswer(200, _json(reply))


_ERRORS: dict[str, tuple[int, str, str]] = {
    "rate_limited": (429, "rate_limit_exceeded", "Too many requests."),
    "error": (500, "server_error", "Something broke."),
    "unavailable": (503, "overloaded", "Come back later."),
    "unauthorized": (401, "invalid_api_key", "This key is wrong."),
    "not_found": (404, "model_not_found", "There is no such model."),
    "bad_request": (400, "context_length_exceeded", "The messages are too long."),
}


def error(
    status: int, message: str, code: str, headers: Mapping[str, str] | None = None
) -> ServedAnswer:
    """Build an error as OpenAI spells it."""
    body = {"error": {"message": message, "type": code, "code": code, "param": None}}
    return ServedAnswer(status, _json(body), headers or {})


def _mode(request: Mapping[str, Any]) -> str:
    if request.get("tools"):
        return "tool"
    wanted_format = request.get("response_format") or {}
    return str(wanted_format.get("type", "text"))


def _not_taken(behaviour: str, request: Mapping[str, object]) -> ServedAnswer | None:
    mode = _mode(request)
    if behaviour == "schema_500" and mode == "json_schema":
        return error(500, "json_schema is not implemented.", "server_error")
    if behaviour == "reasoning":
        if "max_tokens" in request:
            return error(400, "Use 'max_completion_tokens' instead.", "unsupported_parameter")
        if "temperature" in request:
            return error(400, "'temperature' does not support 0.", "unsupported_value")
    wanted = {"tool_only": "tool", "json_object_only": "json_object", "text_only": "text"}
    only = wanted.get(behaviour, mode)
    if mode not in (only, "text"):
        return error(400, f"{mode} is not supported.", "unsupported_value")
    return None


def _changed(behaviour: str, reply: dict[str, Any]) -> dict[str, Any]:
    choice = reply["choices"][0]
    message = choice["message"]
    if behaviour == "malformed":
        message.pop("tool_calls", None)
        message["content"] = "I would say that this looks fine."
    elif behaviour == "fenced":
        message["content"] = f"Here it is:\n```json\n{message['content']}\n```\nBye."
    elif behaviour == "refusal":
        message["content"], message["refusal"] = None, "I cannot help with that."
    elif behaviour == "filtered":
        message["content"], choice["finish_reason"] = "", "content_filter"
    elif behaviour == "truncated":
        choice["finish_reason"] = "length"
        message["content"] = (message["content"] or "")[:12]
    return reply


def completion(request: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    """Build the chat completion that carries an answer, ``n`` times where that is asked."""
    answered = answer(request)
    text = answered if isinstance(answered, str) else json.dumps(answered, ensure_ascii=False)
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if request.get("tools"):
        function = {"name": request["tools"][0]["function"]["name"], "arguments": text}
        call = {"id": "call_1", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    count = int(request.get("n") or 1)
    prompt = sum(len(str(turn.get("content") or "")) for turn in request["messages"]) // 4
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": MODEL,
        "choices": [
            {"index": index, "finish_reason": "stop", "message": message} for index in range(count)
        ],
        "usage": usage(prompt, count * max(1, len(text) // 4)),
    }


def _streamed(reply: dict[str, Any]) -> bytes:
    """Spell a reply as the events of a stream: a word each, then the end, then the tokens."""
    choices, counts = reply.pop("choices"), reply.pop("usage")
    about = {**reply, "object": "chat.completion.chunk"}
    events: list[dict[str, Any]] = []
    for choice in choices:
        parts = (choice["message"]["content"] or "").split(" ")
        words = [f"{part} " for part in parts[:-1]] + parts[-1:]
        for delta, ended in [*(({"role": "assistant", "content": w}, None) for w in words),
                             ({}, choice["finish_reason"])]:  # fmt: skip
            one = {"index": choice["index"], "delta": delta, "finish_reason": ended}
            events.append({**about, "choices": [one]})
    events.append({**about, "choices": [], "usage": counts})
    lines = [b"data: " + _json(event) + b"\n\n" for event in events]
    return b"".join([*lines, b"data: [DONE]\n\n"])


def usage(prompt: int, reply: int) -> dict[str, int]:
    """Count tokens as a quarter of the characters."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": reply,
        "total_tokens": prompt + reply,
    }


def embeddings(request: Mapping[str, object]) -> ServedAnswer:
    """Embed each text as a hashed bag of words: 256 numbers, unit length."""
    given = request.get("input")
    texts = [str(text) for text in (given if isinstance(given, list) else [given])]
    data: list[dict[str, Any]] = []
    for index, text in enumerate(texts):
        vector: Any = _hashed(text)
        if request.get("encoding_format") == "base64":
            vector = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
        data.append({"object": "embedding", "index": index, "embedding": vector})
    tokens = sum(map(len, texts)) // 4
    counts = {"prompt_tokens": tokens, "total_tokens": tokens}
    return ServedAnswer(
        200, _json({"object": "list", "model": MODEL, "data": data, "usage": counts})
    )


def _hashed(text: str) -> list[float]:
    vector = [0.0] * 256
    for word in words(text):
        vector[int(hashlib.sha256(word.encode()).hexdigest()[:8], 16) % 256] += 1.0
    length = math.sqrt(sum(number * number for number in vector)) or 1.0
    return [number / length for number in vector]


def models() -> ServedAnswer:
    """List the one model there is."""
    entry = {"id": MODEL, "object": "model", "created": 0, "owned_by": "llmeval"}
    return ServedAnswer(200, _json({"object": "list", "data": [entry]}))


def _json(body: object) -> bytes:
    return json.dumps(body).encode()


_JOIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One request that arrived: its path, its headers in lower case, its decoded body."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


class JudgeServer:
    """Serves ``/v1/chat/completions``, ``/v1/embeddings`` and ``/v1/models`` while it is entered.

    Args:
        answer: Decides the content of a good reply; the stand-in by default.
        script: How the first chat calls are answered, one entry each: a `Behaviour` or an answer.
        default: How the calls after the script are answered.
        delay: How many seconds ``slow`` waits.
        retry_after: How many seconds ``rate_limited`` asks the client to wait.
        key: If given, every other key is refused with 401 and a message that quotes the sent key.
        port: The port to listen on; 0 takes a free one.
    """

    stands_in_for: ClassVar[str] = "judge"

    def __init__(
        self,
        answer: Answer = stand_in,
        *,
        script: Iterable[Behaviour | Answer] = (),
        default: Behaviour = "good",
        delay: float = 0.2,
        retry_after: float = 1.0,
        key: str | None = None,
        port: int = 0,
    ) -> None:
        self.answer = answer
        self.script: deque[Behaviour | Answer] = deque(script)
        self.default: Behaviour = default
        self.delay = delay
        self.retry_after = retry_after
        self.key = key
        self.requests: list[ReceivedRequest] = []
        self.stopping = threading.Event()
        self._port = port
        self._server: _ListeningServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def base_url(self) -> str:
        """Address for a client, ``http://127.0.0.1:<port>/v1``."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def calls(self) -> int:
        """How many chat completions were asked for."""
        return len(self.chats)

    @property
    def chats(self) -> list[ReceivedRequest]:
        """The chat completion requests, in the order in which they came."""
        return [
            request for request in list(self.requests) if request.path.endswith("/chat/completions")
        ]

    def start(self) -> None:
        """Listen and serve on daemon threads."""
        self._server = _ListeningServer(self, self._port)
        self._port = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), name="judge-server", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop serving, cut every open connection and wait for the threads to end."""
        server, thread = self._server, self._thread
        if server is None or thread is None:
            return
        self.stopping.set()
        server.shutdown()
        thread.join(_JOIN_SECONDS)
        server.cut()
        server.server_close()
        self._server = self._thread = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def refused(self, request: ReceivedRequest) -> ServedAnswer | None:
        """Return what a request with a wrong key gets."""
        sent = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.key is None or sent == self.key:
            return None
        return error(401, f"Incorrect API key provided: {sent}", "invalid_api_key")

    def reply(self, request: ReceivedRequest) -> ServedAnswer:
        """Decide what one request gets."""
        if (refused := self.refused(request)) is not None:
            return refused
        if request.path.endswith("/embeddings"):
            return embeddings(request.body)
        if request.path.endswith("/models"):
            return models()
        if not request.path.endswith("/chat/completions"):
            return error(404, f"There is no {request.path}.", "not_found")
        try:
            entry = self.script.popleft()
        except IndexError:
            entry = self.default
        if callable(entry):
            return behave("good", request.body, entry, self.retry_after)
        return behave(entry, request.body, self.answer, self.retry_after)


class _ListeningServer(ThreadingHTTPServer):
    """Knows its connections, so that it can end with them."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, owner: JudgeServer, port: int) -> None:
        self.owner = owner
        self._open: dict[socket.socket, threading.Thread] = {}
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        thread = threading.Thread(
            target=self.process_request_thread,
            args=(request, client_address),
            name="judge-server-connection",
            daemon=True,
        )
        self._open[request] = thread
        thread.start()

    def shutdown_request(self, request: Any) -> None:
        self._open.pop(request, None)
        super().shutdown_request(request)

    def cut(self) -> None:
        """Close the connections that clients keep open, and wait for their threads."""
        deadline = time.monotonic() + _JOIN_SECONDS
        for connection, thread in list(self._open.items()):
            try:  # noqa: SIM105
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            thread.join(max(0.0, deadline - time.monotonic()))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet about clients that hang up; show mistakes of the server or its answer."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # with delayed acknowledgement each call would take 40 ms
    wbufsize = -1
    server: _ListeningServer
    _BREAKS: ClassVar[frozenset[str]] = frozenset({"reset", "hang"})

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        owner = self.server.owner
        text = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = ReceivedRequest(self.path.partition("?")[0], headers, json.loads(text or b"{}"))
        owner.requests.append(request)
        answer = owner.reply(request)
        if answer.manner in self._BREAKS:
            if answer.manner == "hang":
                owner.stopping.wait()
            self.close_connection = True
            return
        if answer.manner == "slow":
            owner.stopping.wait(owner.delay)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if answer.manner == "drip":
            self._drip(answer.body)
        else:
            self.wfile.write(answer.body)

    def _drip(self, body: bytes) -> None:
        for position in range(len(body)):
            self.wfile.write(body[position : position + 1])
            self.wfile.flush()
            if self.server.owner.stopping.wait(0.02):
                self.close_connection = True
                return

    def log_message(self, *_: object) -> None:
        """Say nothing: what came is in ``requests``."""


def main(
    arguments: list[str] | None = None, *, server_class: type[JudgeServer] = JudgeServer
) -> None:
    """Serve the stand-in until interrupted."""
    import argparse

    name = server_class.stands_in_for
    module = f"{name.partition(' ')[0]}_server"
    parser = argparse.ArgumentParser(prog=f"python -m llmeval_sdk.testing.{module}")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    options = parser.parse_args(arguments)
    with server_class(port=options.port) as server:
        sys.stdout.write(f"stand-in {name} (rules, no model) at {server.base_url}\n")
        sys.stdout.flush()
        try:
            server.stopping.wait()
        except KeyboardInterrupt:
            sys.stdout.write("stopped\n")


if __name__ == "__main__":
    main()
