"""Langfuse: spans over its OTLP endpoint, scores and feedback over its score API.

A tiny receiver stands in for Langfuse; in an app, the three variables are all there is to do.
"""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        print(f"POST {self.path}: {len(body)} bytes")
        for score in json.loads(body) if self.path == "/api/public/scores" else ():
            print("  ", score["name"], score["value"], score["dataType"], score.get("comment", ""))
        answer = b'{"message": "Accepted"}' if self.path == "/api/public/scores" else b""
        self.send_response(202)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


server = HTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ["LLMEVAL_EXPORTERS"] = "langfuse"  # noqa: TID251 - stands for your shell
os.environ["LANGFUSE_BASE_URL"] = f"http://127.0.0.1:{server.server_port}"  # noqa: TID251
os.environ["LANGFUSE_PUBLIC_KEY"] = "pk-lf-…"  # noqa: TID251
os.environ["LANGFUSE_SECRET_KEY"] = "sk-lf-…"  # noqa: S105, TID251

import llmeval_sdk as llmeval  # noqa: E402 - the environment first


with llmeval.workflow("answer", request="Which material is the roof?") as span:
    with llmeval.retrieval("search", request="roof material") as step:
        step.retrieved_context = [{"content": "The roof is of slate.", "id": "1", "score": 0.9}]
    span.response = "The roof is of slate."

llmeval.submit_feedback(label="helpful", value=True, span=span, reasoning="Short and right.")
print(llmeval.flush().exporters["langfuse"])
