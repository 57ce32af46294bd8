"""The far end of all peers: an HTTP server in its own process that counts, or never answers.

    python -m benchmarks.peers.sink [--hang] [--aside]

It takes any path, answers what each peer's client needs to go on, and counts requests, bytes and
the different marks in the bodies. ``GET /__count`` returns the counts and begins anew. It prints its
address, and ends when its standard input closes, so it never outlives a benchmark. With ``--aside``
whoever else has work to do goes first, as with a server on another machine.
"""

import asyncio
import gzip
import json
import os
import re
import subprocess
import sys
import urllib.request
import zlib
from contextlib import contextmanager


MARK = re.compile(rb"mk_(\d+)_")
KNOWN = {
    "/v1/info": {"project_name": "bench", "project_url": "http://127.0.0.1/bench"},  # logfire's
    "/info": {
        "version": "7.70.0",
        "endpoints": ["/v0.4/traces", "/v0.5/traces", "/evp_proxy/v2/", "/evp_proxy/v4/"],
        "client_drop_p0s": True,
    },  # a Datadog agent's
    "/api/apikey/login": {"org_info": [{"id": "1", "name": "bench"}]},  # Braintrust's
    "/v1/project": {"id": "1", "name": "bench"},
}
"""What clients ask about the server before they send."""


class Counts:
    """What came since it was last asked for."""

    def __init__(self):
        self.requests, self.bytes, self.marks = 0, 0, set()

    def add(self, body, text):
        self.requests += 1
        self.bytes += len(body)
        self.marks.update(MARK.findall(text))

    def take(self):
        found = {"requests": self.requests, "bytes": self.bytes, "records": len(self.marks)}
        self.requests, self.bytes, self.marks = 0, 0, set()
        return found


counts = Counts()


async def handle(reader, writer, hang):
    """Answer the requests of one connection; ``hang`` is an event to wait for before."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            line, *rest = head.decode("latin-1").split("\r\n")
            headers = {k.lower(): v.strip() for k, _, v in (each.partition(":") for each in rest)}
            path = line.split(" ")[1]
            body = await read_body(reader, headers)
            if path == "/__count":
                await answer(writer, "application/json", json.dumps(counts.take()).encode())
                continue
            counts.add(body, decoded(body, headers))
            if hang:
                await hang.wait()
            if "application/x-protobuf" in headers.get("content-type", ""):
                await answer(writer, "application/x-protobuf", b"")
            else:
                known = json.dumps(KNOWN.get(path, {})).encode()
                await answer(writer, "application/json", known)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def read_body(reader, headers):
    if headers.get("transfer-encoding", "") != "chunked":
        return await reader.readexactly(int(headers.get("content-length", 0)))
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


def decoded(body, headers):
    """Undo the compression; bodies of others are counted as they are."""
    coding = headers.get("content-encoding", "")
    return {"gzip": gzip.decompress, "deflate": zlib.decompress}.get(coding, bytes)(body)


async def answer(writer, kind, body):
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


async def serve(*, hang):
    never = asyncio.Event() if hang else None  # one that lives: it keeps who waits from being freed
    server = await asyncio.start_server(
        lambda reader, writer: handle(reader, writer, never), "127.0.0.1", 0, limit=1 << 20
    )
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


@contextmanager
def running(*options):
    """Run the sink for the block; gives its address."""
    command = [sys.executable, "-m", "benchmarks.peers.sink", *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def count(url):
    """Ask a sink what it got since it was last asked."""
    with urllib.request.urlopen(f"{url}/__count", timeout=10) as reply:
        return json.load(reply)


if __name__ == "__main__":
    if "--aside" in sys.argv:
        os.nice(19)
    asyncio.run(serve(hang="--hang" in sys.argv))
