"""A raw HTTP server whose answers are traps; the path of the request says which.

Run as a script it is the client: it falls into each trap in turn and prints, as JSON, what came of
it, how long it took, and how far the peak of its memory rose.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import sys
import threading
import time
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path


MIB = 1 << 20
GOOD = {
    "choices": [{"message": {"content": '{"rating": "yes"}'}, "finish_reason": "stop"}],
    "model": "trap",
}


def _head(status=200, **headers):
    lines = [f"HTTP/1.1 {status} X", "Content-Type: application/json", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _sized(body, status=200, **headers):
    yield _head(status, Content_Length=len(body), **headers) + body


def _endless(part, **headers):
    yield _head(Transfer_Encoding="chunked", **headers)
    while True:
        yield b"%x\r\n%s\r\n" % (len(part), part)


def _empty_blocks():
    """Compressed data that goes on for ever and decodes to nothing."""
    header = b"\x1f\x8b\x08" + bytes(6) + b"\x03"
    yield _head(Transfer_Encoding="chunked", Content_Encoding="gzip")
    yield b"%x\r\n%s\r\n" % (len(header), header)
    part = b"\x00\x00\x00\xff\xff" * 10_000
    while True:
        yield b"%x\r\n%s\r\n" % (len(part), part)


def _drip():
    yield _head(Transfer_Encoding="chunked")
    while True:
        time.sleep(0.05)
        yield b"1\r\n \r\n"


@cache
def _bomb(layers=1):
    """A hundred megabytes of spaces, compressed so many times."""
    data = b" " * (100 * MIB)
    for _ in range(layers):
        data = gzip.compress(data, 1)
    return data


TRAPS = {
    "gzip": lambda: _sized(_bomb(), Content_Encoding="gzip"),
    "gzip-in-gzip": lambda: _sized(_bomb(2), Content_Encoding="gzip, gzip"),
    "gzip-twice-named": lambda: _sized(_bomb(2), Content_Encoding="gzip", content_encoding="gzip"),
    "deflate": lambda: _sized(zlib.compress(b" " * (100 * MIB), 1), Content_Encoding="deflate"),
    "error-500": lambda: _sized(_bomb(), 500, Content_Encoding="gzip"),
    "error-400": lambda: _sized(_bomb(), 400, Content_Encoding="gzip"),
    "rate-limited": lambda: _sized(_bomb(), 429, Content_Encoding="gzip"),
    "long": lambda: iter([_head(Content_Length=1 << 40), b" " * MIB]),
    "endless": lambda: _endless(b" " * 65536),
    "endless-gzip": lambda: _endless(_bomb()[:65536], Content_Encoding="gzip"),
    "empty-blocks": _empty_blocks,
    "drip": _drip,
    "deep": lambda: _sized(b"[" * (4 * MIB - 16)),
    "not-gzip": lambda: _sized(b"{}", Content_Encoding="gzip"),
    "good": lambda: _sized(gzip.compress(json.dumps(GOOD).encode()), Content_Encoding="gzip"),
}


class TrapServer:
    """Serves the traps on the loopback interface while it is entered."""

    def __enter__(self):
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._listening.close()

    def _serve(self):
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        with connection, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(65536) or b"\r\n\r\n"
            trap = head.split(b" ")[1].decode().split("/")[1]
            for part in TRAPS[trap]():
                connection.sendall(part)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass


def _memory_mib(row):
    """Read a row of the process's memory; `resource` would count what the parent once had."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.partition(f"{row}:")[2].split()[0]) / 1024


def _fall(call):
    from llmeval_sdk.errors import JudgeError

    Path("/proc/self/clear_refs").write_text("5", "ascii")  # the peak begins anew
    before = _memory_mib("VmRSS")
    try:
        asyncio.run(call())
        came = ["good", ""]
    except JudgeError as error:
        came = [error.type, str(error)]
    return [*came, _memory_mib("VmHWM") - before]


def main(port):
    from llmeval_sdk.judges.models import OpenAILLM
    from llmeval_sdk.judges.models.openai_client import OpenAIEmbeddings
    from llmeval_sdk.model import Message

    schema = {"type": "object", "properties": {"rating": {"type": "string"}}, "required": []}
    found = {}
    first = OpenAILLM("first", base_url="http://127.0.0.1:9/v1", api_key="k")
    asyncio.run(first.warm())  # the import is neither the first trap's time nor its memory
    for trap in ("good", *TRAPS):
        url = f"http://127.0.0.1:{port}/{trap}/v1"
        options = {"base_url": url, "api_key": "k", "attempts": 1}
        options["timeout"] = 2.0 if trap == "drip" else 50.0

        async def chat(options=options):
            model = OpenAILLM("trap", **options)
            await model.complete([Message("user", "q")], schema=schema)

        async def embed(options=options):
            await OpenAIEmbeddings("trap", **options).embed(["text"])

        found[trap] = {"chat": _fall(chat), "embeddings": _fall(embed)}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]))
