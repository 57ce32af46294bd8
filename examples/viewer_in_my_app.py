"""The viewer inside an app of your own: pages behind your log-in, permanent links, Prometheus.

Here the pages are open, because nobody else reaches this process.
"""
# needs: starlette, uvicorn, prometheus_client

import tempfile
import threading
import time
from pathlib import Path
from urllib.request import urlopen

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

import llmeval_sdk as llmeval


store = Path(tempfile.mkdtemp()) / "llmeval.db"
llmeval.configure(exporters=["local"], store=store)
with (
    llmeval.annotation_context(user_id="anna", session_id="chat-1"),
    llmeval.workflow("answer", request="What is the roof made of?") as span,
):
    span.response = "Slate."
llmeval.flush(timeout=10)

pages = llmeval.viewer.app(store=store, open=True, metrics=True)
app = Starlette(routes=[Mount("/llmeval", pages)])  # or FastAPI: app.mount("/llmeval", pages)
server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
thread = threading.Thread(target=server.run)
thread.start()
while not server.started:
    time.sleep(0.01)
address = "http://127.0.0.1:{1}/llmeval".format(*server.servers[0].sockets[0].getsockname())

for path in (
    "/overview",
    "/sessions?user=anna",
    "/session?id=chat-1",
    f"/traces/{span.trace_id}?span={span.span_id}",
    "/metrics",
):
    with urlopen(address + path) as page:  # noqa: S310 - our own server
        print(page.status, f"{len(page.read()):>6,} bytes", path.split("?")[0][:20])

server.should_exit = True
thread.join()
pages.close()
