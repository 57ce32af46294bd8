"""The table of attribute names: whoever writes a span, what it says is read from any of them."""

from __future__ import annotations

import pytest

from llmeval_sdk.tracing.foreign import conventions
from llmeval_sdk.tracing.foreign.conventions import CONVENTIONS


READERS = {
    "model": lambda attributes: conventions.model_of(attributes)[0],
    "provider": lambda attributes: conventions.model_of(attributes)[1],
    "session": conventions.session_of,
    "user": lambda attributes: conventions.tags_of(attributes).get("user_id"),
    "agent": conventions.agent_of,
    "tool": lambda attributes: conventions.name_of(attributes, "step"),
    "tool arguments": lambda attributes: conventions.arguments_of(attributes, "step"),
    "tool result": lambda attributes: conventions.result_of(attributes).result,
    "input": conventions.request_of,
    "output": conventions.response_of,
    "messages answered": conventions.response_of,
}
ROWS = [
    (convention, what, name)
    for convention, table in CONVENTIONS.items()
    for what, names in table.items()
    if what in READERS
    for name in names
]


@pytest.mark.parametrize(("convention", "what", "name"), ROWS)
def test_each_name_of_each_convention_is_read(convention, what, name):
    """A span that has nothing but this attribute says so much."""
    assert READERS[what]({name: "slate"}) == "slate"


@pytest.mark.parametrize("number", ["input tokens", "output tokens", "total tokens"])
def test_tokens_are_counted_in_each_convention(number):
    """Under whatever name they stand."""
    for table in CONVENTIONS.values():
        for name in table.get(number, ()):
            usage, _ = conventions.used({name: 7})
            assert getattr(usage, number.replace(" ", "_")) == 7
