"""The service as a WSGI and as an ASGI application: every path is a request of that name."""

import json
import os

from traced import serve

import llmeval_sdk as llmeval


def _reply(path):
    return json.dumps({"process": os.getpid(), "changed": serve(path.lstrip("/"))}).encode()


def wsgi(environ, start_response):
    body = _reply(environ["PATH_INFO"])
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        return await _lifespan(receive, send)
    body = _reply(scope["path"])
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    return await send({"type": "http.response.body", "body": body})


async def _lifespan(receive, send):
    """Flush at shutdown: uvicorn ends its workers by SIGTERM, after which nothing runs any more."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        else:
            if os.environ.get("FLUSH_AT_SHUTDOWN"):
                llmeval.shutdown()
            await send({"type": "lifespan.shutdown.complete"})
            return
