"""What decorators name is remembered for ``configure()``, within bounds."""

from __future__ import annotations

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import registry, testing
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.tracing._span import MAX_REQUESTED, State, state


def test_a_decorator_that_runs_in_every_request_is_remembered_once():
    """Decorating the same function again and again takes no further memory."""
    with runtime.isolated():
        for _ in range(10):
            llmeval.workflow(name="answer", evaluators=["context_relevance"])(lambda: None)
        assert len(state.requested) == 1


def test_the_evaluators_of_decorators_are_remembered_within_a_bound():
    """An app that makes decorators of ever new names does not fill the memory."""
    with runtime.isolated():
        for number in range(MAX_REQUESTED + 50):
            llmeval.workflow(name=f"answer {number}", evaluators=["context_relevance"])(print)
        assert len(state.requested) == MAX_REQUESTED


def test_configure_names_the_function_whose_evaluator_nobody_knows():
    """Two functions of one name are both checked."""
    with runtime.isolated():
        llmeval.workflow(name="answer", evaluators=["context_relevance"])(print)
        llmeval.workflow(name="answer", evaluators=["context_relevanse"])(print)
        with pytest.raises(ConfigurationError, match=r"evaluators= of 'answer'.*context_relevance"):
            llmeval.configure(exporters=["memory"], escalations=[])


def test_an_isolated_block_gives_every_switch_back():
    """Whatever tracing is connected to is the same after the block as it was before."""
    before = {name: getattr(state, name) for name in State.__slots__}
    with testing.capture(trace_sample_rate=0.5, enabled=False):
        pass
    assert {name: getattr(state, name) for name in State.__slots__} == before


def test_a_built_in_evaluator_whose_file_was_deleted_is_not_known(monkeypatch):
    """Names that stand in files raise nothing, however small the installation is."""
    monkeypatch.setitem(registry.judges(), "gone", "llmeval_sdk.judges.gone:gone")
    assert registry.known("gone") is None
    assert registry.known("nobody's") is None
    assert registry.known("safety").name == "safety"
