"""Rows of a small golden set, files of them, and a judge over real HTTP."""

from __future__ import annotations

import json

import pytest

from llmeval_sdk.testing.judge_server import JudgeServer


def golden(count=6):
    """Make rows of which every third is answered wrongly and has the wrong document."""
    return [
        {
            "request_id": f"q{n}",
            "request": f"What is roof {n} made of?",
            "response": "gold" if n % 3 == 0 else f"slate {n}",
            "expected_response": f"slate {n}",
            "retrieved_context": [{"content": f"Roof {n} is slate {n}.", "doc_uri": f"d{n}"}],
            "expected_retrieved_context": [{"doc_uri": "other" if n % 3 == 0 else f"d{n}"}],
        }
        for n in range(count)
    ]


@pytest.fixture
def rows():
    return golden()


@pytest.fixture
def write(tmp_path):
    """Write rows, or raw lines, as JSON lines; return the path."""

    def call(rows, name="data.jsonl"):
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return call


@pytest.fixture
def judge(monkeypatch):
    """A judge model that everything reaches by the environment, and its requests."""
    with JudgeServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        yield server
