"""A model's server that can sustain a load: it parses next to nothing and never blocks.

    python -m benchmarks.loopback [--delay SECONDS] [--reply JSON | --body JSON] [--aside]

Every POST gets the same chat completion, or the same ``--body``, after ``--delay`` seconds. The
address is the first line it prints; it ends when its standard input closes, so it never outlives
the benchmark. With ``--aside`` whoever else has work to do goes first: the server that it stands
for is on another machine, and takes no processor from the app.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


REPLY = {"rationale": "It stands in chunk 1.", "rating": "yes"}


class Connection(asyncio.Protocol):
    """One kept-alive connection: a request at a time, as HTTP/1.1 clients send them."""

    def __init__(self, wire: bytes, delay: float) -> None:
        self.wire, self.delay = wire, delay
        self.held = b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.held += data
        while (end := self.held.find(b"\r\n\r\n")) >= 0:
            head = self.held[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self.held) < end + 4 + length:
                return
            self.held = self.held[end + 4 + length :]
            asyncio.get_running_loop().call_later(self.delay, self.answer)

    def answer(self):
        if not self.transport.is_closing():
            self.transport.write(self.wire)


def completion(reply):
    """Return the body of a chat completion with this content."""
    message = {"role": "assistant", "content": json.dumps(reply)}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "loopback",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 600, "completion_tokens": 20, "total_tokens": 620},
    }


def wire(answer):
    body = json.dumps(answer).encode()
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def serve(delay, body):
    loop = asyncio.get_running_loop()
    sent = wire(body)
    server = await loop.create_server(lambda: Connection(sent, delay), "127.0.0.1", 0, backlog=256)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


@contextmanager
def child(module, *arguments) -> Iterator[str]:
    """Run a server in a process of its own and give the address that it prints first."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


@contextmanager
def running(delay=0.05, reply=REPLY, *, body=None, aside=False) -> Iterator[str]:
    """Run this server and give its address; ``body`` is sent in place of a chat completion."""
    body = completion(reply) if body is None else body
    arguments = ["--delay", str(delay), "--body", json.dumps(body), *(["--aside"] if aside else [])]
    with child("benchmarks.loopback", *arguments) as url:
        yield url


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay", type=float, default=0.05)
    parser.add_argument("--reply", type=json.loads, default=REPLY)
    parser.add_argument("--body", type=json.loads)
    parser.add_argument("--aside", action="store_true")
    options = parser.parse_args()
    if options.aside:
        os.nice(19)
    asyncio.run(serve(options.delay, options.body or completion(options.reply)))
