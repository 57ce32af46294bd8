"""A chat completions server that can sustain a load: it parses next to nothing and never blocks.

    python -m benchmarks.loopback [--delay SECONDS] [--reply JSON]

Every POST gets the same completion after ``--delay`` seconds. The address is the first line it
prints; it ends when its standard input closes, so it never outlives the benchmark.
"""

from __future__ import annotations

import argparse
import asyncio
import json
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


def wire(reply):
    message = {"role": "assistant", "content": json.dumps(reply)}
    body = json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "loopback",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 600, "completion_tokens": 20, "total_tokens": 620},
        }
    ).encode()
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def serve(delay, reply):
    loop = asyncio.get_running_loop()
    sent = wire(reply)
    server = await loop.create_server(lambda: Connection(sent, delay), "127.0.0.1", 0, backlog=256)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


@contextmanager
def running(delay=0.05, reply=REPLY) -> Iterator[str]:
    """Run the server in a process of its own and give its address."""
    command = [sys.executable, "-m", "benchmarks.loopback"]
    command += ["--delay", str(delay), "--reply", json.dumps(reply)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay", type=float, default=0.05)
    parser.add_argument("--reply", type=json.loads, default=REPLY)
    options = parser.parse_args()
    asyncio.run(serve(options.delay, options.reply))
