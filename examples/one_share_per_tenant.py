"""Judge a fifth of each tenant's requests, and ask how each of them fares.

Without ``per=`` one share is spent on the tenants that look riskiest, and a quiet one is never
judged. The same names select requests afterwards: ``llmeval report --where tag:tenant=acme``.

    python examples/one_share_per_tenant.py
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import llmeval_sdk as llmeval
from llmeval_sdk import cli


TENANTS = {"acme": 0.02, "globex": 0.3, "initech": 0.05}
"""How often the app's answer to each of them is wrong."""


@llmeval.workflow
def answer(question: str, tenant: str) -> str:
    """Answer from a passage, or now and then from nowhere."""
    passage = "The roof is of slate and was laid in 1912."
    wrong = random.random() < TENANTS[tenant]  # noqa: S311 - no secret
    llmeval.annotate(request=question, retrieved_context=[passage], tags={"tenant": tenant})
    return "The walls are of brick." if wrong else "The roof is of slate."


@llmeval.judge(name="about_the_roof")
def about_the_roof(record: llmeval.Record, llm: llmeval.LLM) -> bool:
    """Stand in for a judge that asks a model."""
    return "roof" in (record.response or "")


def main() -> None:
    """Trace some requests, and print what the report says of each tenant."""
    random.seed(1)
    store = str(Path(tempfile.mkdtemp()) / "llmeval.db")
    share = llmeval.Escalation(about_the_roof, share=0.2, per="tag:tenant")
    llmeval.configure(exporters=["local"], store=store, escalations=[share], llm="stand-in")
    for _ in range(200):
        for tenant in TENANTS:
            answer("What is the roof made of?", tenant)
    llmeval.flush()
    cli.main(["report", "--store", store, "--by", "tag:tenant", "--evaluator", "about_the_roof"])
    llmeval.shutdown()


if __name__ == "__main__":
    main()
