"""The pages of frameworks show a judged trace: each is followed where its framework is installed."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from page import blocks_of
from scripted_model import order_agent, roof_reader, scripted_model

from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.testing.judge_server import JudgeServer


ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "how-to"


def python_of(environment):
    """Return the interpreter of one of the environments."""
    return Path(os.environ["BACKENDS"]).resolve() / environment / "bin" / "python"


def followed(page, environment, script, folder):
    """Follow a page as a reader would; return the store that it leaves."""
    python = python_of(environment)
    with scripted_model(script) as url, JudgeServer() as judge:
        done = subprocess.run(
            [python, ROOT / "tests" / "support" / "page.py", PAGES / f"{page}.md"],
            cwd=folder, capture_output=True, text=True, check=False, timeout=240,
            env={
                "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(folder),
                "OPENAI_BASE_URL": url, "OPENAI_API_BASE": url, "OPENAI_API_KEY": "none",
                "LLMEVAL_JUDGE_BASE_URL": judge.base_url, "LLMEVAL_STORE": str(folder / "own.db"),
            },
        )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "left out" not in done.stdout
    return StoreReader(folder / "own.db")


def judged(store):
    """Return the one span that the judge scored, its verdict, and all spans of its trace."""
    (row,) = store.read(
        lambda c: c.execute(
            "SELECT span_id, trace_id FROM evaluations WHERE name = 'groundedness'"
        ).fetchall()
    )
    (verdict,) = [
        event.evaluation
        for event in store.evaluations_of(row[0])
        if event.evaluation.name == "groundedness"
    ]
    return store.span(*row), verdict, store.trace(row[1])


AGENTS = [("langgraph", "agents"), ("openai-agents", "agents")]


@pytest.mark.parametrize(("page", "environment"), AGENTS)
def test_an_agents_run_is_judged(page, environment, tmp_path):
    """The store has the question, the answer, the tool call with its result, and the verdict."""
    with followed(page, environment, order_agent, tmp_path) as store:
        span, verdict, spans = judged(store)
    assert "Where is order A17?" in str(span.request)
    assert "Order A17 is shipped." in str(span.response)
    assert (verdict.error, verdict.value) == (None, "yes")
    (tool,) = [each for each in spans if each.kind == "tool"]
    assert tool.name == "get_order"
    assert "A17" in str(tool.request)
    assert "shipped" in str(tool.response)


def test_a_query_of_llama_index_is_judged(tmp_path):
    """The store has the question, the answer, the passages, and the verdict."""
    with followed("llama-index", "llamaindex", roof_reader, tmp_path) as store:
        span, verdict, spans = judged(store)
    assert "What is the roof of the barn made of?" in str(span.request)
    assert "It is made of slate." in str(span.response)
    assert verdict.error is None
    assert verdict.value is not None
    passages = [chunk.content for each in spans for chunk in each.retrieved_context or ()]
    assert "The roof of the barn is made of slate." in passages


def test_a_query_of_llama_index_has_its_answer_and_its_passages():
    """Spans above the model's name a generator in place of an answer; a turn of a chat ends before it has an answer."""
    with scripted_model(roof_reader) as url:
        done = subprocess.run(
            [python_of("llamaindex"), Path(__file__).with_name("apps") / "llama_queries.py"],
            capture_output=True, text=True, check=False, timeout=120,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "OPENAI_BASE_URL": url},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    became = json.loads(done.stdout.splitlines()[-1])
    passages = ["The roof of the barn is made of slate."]
    assert became == {
        "query": [["Which roof?", "It is made of slate.", passages]],
        "streamed": [["Which roof?", "It is made of slate.", passages]],
        "async": [["Which roof?", "It is made of slate.", passages]],
        "chat": [["Which roof?", None, passages]],
    }


@pytest.mark.parametrize("page", ["langgraph", "openai-agents", "llama-index"])
def test_it_takes_less_than_ten_lines(page):
    """The first block of Python is all that an app adds."""
    text = (PAGES / f"{page}.md").read_text()
    added = next(block for block in blocks_of(text) if block.language == "python")
    assert len([line for line in added.code.splitlines() if line.strip()]) < 10
    assert "configure(evaluators=" in added.code
    assert re.search(r"^## What is missing$", text, re.MULTILINE)
