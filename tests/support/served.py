"""An ASGI app on a real server, and a client that follows nothing and hides nothing."""

import asyncio
import contextlib
import http.client
import socket
import threading
import time
from contextlib import closing, contextmanager
from urllib.parse import urlencode

import uvicorn


class Server:
    """One ASGI app on a loopback port."""

    def __init__(self, port, root=""):
        self.port = port
        self.root = root
        self.address = f"http://127.0.0.1:{port}{root}"

    def get(self, path="/", **query):
        return self.send("GET", f"{path}{'?' + urlencode(query, doseq=True) if query else ''}")

    def post(self, path, form=None, headers=None):
        body = urlencode(form or {})
        kind = {"content-type": "application/x-www-form-urlencoded"}
        return self.send("POST", path, body, {**kind, **(headers or {})})

    def send(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with closing(connection):
            connection.request(method, f"{self.root}{path}", body, headers or {})
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read().decode())


class Answer:
    def __init__(self, status, headers, text):
        self.status = status
        self.headers = headers
        self.text = text


class _QuickServer(uvicorn.Server):
    """A server that ends within milliseconds; uvicorn's own waits two tenths of a second."""

    async def main_loop(self):
        while not await self.on_tick(0):  # noqa: ASYNC110 - another thread ends it
            await asyncio.sleep(0.005)

    async def shutdown(self, sockets=None):
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        deadline = time.monotonic() + 5
        while self.server_state.connections or self.server_state.tasks:
            if time.monotonic() > deadline:
                for task in self.server_state.tasks:
                    task.cancel()
                return
            await asyncio.sleep(0.005)


@contextmanager
def serving(app, root="", port=None):
    listener = socket.create_server(("127.0.0.1", port or 0))
    settings = uvicorn.Config(app, log_level="warning", lifespan="off")
    server = _QuickServer(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.002)
    try:
        yield Server(listener.getsockname()[1], root)
    finally:
        getattr(app, "close", lambda: None)()
        server.should_exit = True
        thread.join(20)
        with contextlib.suppress(OSError):
            listener.close()
