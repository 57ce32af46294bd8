"""Rows of a small golden set, files of them, and a judge over real HTTP."""

from __future__ import annotations

import json

import pytest
from golden import golden

from llmeval_sdk.testing.judge_server import JudgeServer


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
