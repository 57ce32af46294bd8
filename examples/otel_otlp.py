"""OTLP without any OpenTelemetry package: an endpoint in the standard variable is enough.

A tiny receiver stands in for a collector, Tempo, Jaeger, Logfire, Phoenix …
"""

import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        print(f"POST {self.path}: {len(body)} bytes of {self.headers['content-type']}")
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


server = HTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"  # noqa: TID251 - stands for your shell
os.environ["OTEL_SERVICE_NAME"] = "surveyor"  # noqa: TID251

import llmeval_sdk as llmeval  # noqa: E402 - the environment first


@llmeval.workflow
def answer(question: str) -> str:
    with llmeval.retrieval("search", request=question) as step:
        step.retrieved_context = [{"content": "The roof is of slate.", "id": "1", "score": 0.9}]
    return "Slate."


answer("Which material is the roof?")
print(llmeval.flush().exporters["otlp"])
