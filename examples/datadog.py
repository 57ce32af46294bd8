"""Spans and scores in Datadog LLM Observability, by its own ddtrace.

Here a small server stands in for the agent; in production drop the first half and set
`DD_LLMOBS_ENABLED=1` and `DD_SERVICE`, or start with `ddtrace-run`.
"""

# needs: ddtrace

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


scores: list[dict] = []


class Agent(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("eval-metric"):
            scores.extend(json.loads(body)["data"]["attributes"]["metrics"])
        self.send_response(202)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *args: object) -> None: ...


agent = ThreadingHTTPServer(("127.0.0.1", 0), Agent)
threading.Thread(target=agent.serve_forever, daemon=True).start()
os.environ |= {  # noqa: TID251
    "DD_TRACE_AGENT_URL": f"http://127.0.0.1:{agent.server_port}",
    "DD_SERVICE": "example",
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
}

import llmeval_sdk as llmeval  # noqa: E402


llmeval.configure(exporters=["datadog"])


@llmeval.workflow
def answer(question: str) -> str:
    llmeval.annotate(retrieved_context=[{"content": "The roof is of slate.", "score": 0.9}])
    llmeval.submit_evaluation(label="own", value=0.8, span=llmeval.export_span())
    return "Slate."


answer("Which material is the roof?")
llmeval.flush()
for score in scores:
    value = score[f"{score['metric_type']}_value"]
    print(f"{score['label']} = {value} on span {score['join_on']['span']['span_id']}")
