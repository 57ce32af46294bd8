"""What the app costs, how slow it is and what fails, by model and by a tag of the request.

A client's usage is read from its response. The same tables come from `llmeval report --by model`.
"""

import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import llmeval_sdk as llmeval
from llmeval_sdk.cli import main


PRICES = {"own-7b": (0.2, 0.6), "gpt-4o": (2.5, 10.0, 1.25)}


@llmeval.llm(model_name="own-7b")
def rewrite(question: str) -> dict:
    return {"content": question, "usage": {"input_tokens": 60, "output_tokens": 12}}


@llmeval.llm(model_name="gpt-4o")
def complete(question: str) -> dict:
    time.sleep(0.002)
    if question.endswith("7?"):
        raise TimeoutError("the model did not answer")
    details = {"cached_tokens": 512}
    usage = {"prompt_tokens": 900, "completion_tokens": 40, "prompt_tokens_details": details}
    return {"content": "Slate.", "usage": usage}


@llmeval.workflow
def answer(question: str) -> str:
    return complete(rewrite(question)["content"])["content"]


store = str(Path(tempfile.mkdtemp()) / "llmeval.db")
llmeval.configure(exporters=["local"], store=store, prices=PRICES)
for number in range(40):
    tags = {"release": ("1.4", "1.5")[number % 2]}
    with suppress(TimeoutError), llmeval.annotation_context(tags=tags):
        answer(f"What is the roof of house {number} made of, and of {number + 7}?")
llmeval.flush(timeout=10)

codes = [main(["report", "--store", store, "--by", by]) for by in ("model", "tag:release")]
codes.append(main(["report", "--store", store, "--since", "1h", "--alert", "cost_usd.per_day>20"]))
sys.exit(max(codes))
