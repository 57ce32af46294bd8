"""A dashboard for Grafana: the viewer's page for Prometheus serves every metric that it queries."""
# needs: starlette, prometheus_client, httpx2

import asyncio
import json
import re
import sys
from pathlib import Path

import httpx2

import llmeval_sdk as llmeval
from llmeval_sdk.testing.judge_server import JudgeServer


DASHBOARD = Path(__file__).parents[1] / "docs" / "dashboards" / "grafana.json"
PANELS = [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if "targets" in panel]


@llmeval.workflow
def answer(question: str) -> str:
    llmeval.annotate(retrieved_context=[{"content": "The roof of the barn is made of slate."}])
    with llmeval.llm("chat", model_name="gpt-4o") as call:
        call.response = "It is made of slate."
        call.annotate(metrics={"input_tokens": 90, "output_tokens": 6, "time_to_first_token": 0.2})
        return call.response


def scrape(viewer: object) -> str:
    """Read the page as Prometheus does; `llmeval view --metrics` serves it on a port."""

    async def get() -> str:
        transport = httpx2.ASGITransport(viewer)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return str((await client.get("/metrics")).text)

    return asyncio.run(get())


with JudgeServer() as server:  # a stand-in by rules; name your own model and leave this out
    llmeval.configure(llm="stand-in", judge_base_url=server.base_url, evaluators=["groundedness"])
    viewer = llmeval.viewer.app(open=True, metrics=True)
    scrape(viewer)  # what arrives is counted from the first time on
    for _ in range(5):
        answer("What is the roof made of?")
    llmeval.flush(timeout=20)
    page = scrape(viewer)
    viewer.close()

queries = [target["expr"] for panel in PANELS for target in panel["targets"]]
asked = set(re.findall(r"\b(?:llmeval|gen_ai_client)_\w+", " ".join(queries)))
for name in sorted(asked):
    series = re.findall(rf"^{name}[{{ ].*$", page, re.MULTILINE)
    print(f"{name:60} {len(series):3} series", *series[:1], sep="  ")

served = set(re.findall(r"^# TYPE (\w+)", page, re.MULTILINE))
missing = {name for name in asked if name.removesuffix("_bucket") not in served}
print(len(PANELS), "panels query", len(asked), "metrics; not served:", ", ".join(missing) or "none")
sys.exit(bool(missing))
