"""Chat messages in the shapes that instrumentations write become requests and answers."""

from __future__ import annotations

import pytest

from llmeval_sdk.tracing.foreign.messages import answer, chat


@pytest.mark.parametrize("message", [{"content": "x"}, {"content": "x", "role": ""}])
def test_a_message_without_a_role_is_one_with_an_empty_role(message):
    """So a text is stored by ddtrace, where nobody gave a role."""
    assert answer([message]) == "x"
    assert answer({"messages": [message]}) == "x"
    assert chat([message]) == {"messages": [{"role": "user", "content": "x"}]}


def test_a_role_that_is_given_counts():
    """An answer at the end of a conversation is no part of what was asked."""
    turns = [{"content": "roof?"}, {"role": "assistant", "content": "slate"}]
    assert answer(turns) == "slate"
    assert chat(turns) == {"messages": [{"role": "user", "content": "roof?"}]}


@pytest.mark.parametrize(
    "passage", [{"content": "x", "score": 0.5}, {"content": "x", "doc_uri": "d"}, {"text": "x"}, {}]
)
def test_a_passage_is_no_message(passage):
    """What a retriever returned is not an answer."""
    assert answer([passage]) is None
    assert chat([passage]) is None
