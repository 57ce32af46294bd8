"""The risk scores read a request as the judges do."""

import pytest

from llmeval_sdk.heuristics.risk import _text
from llmeval_sdk.model import Record
from llmeval_sdk.model.chat import MAX_QUESTION, question, split_request


ROOF = "Which roof does the chapel have?"
FORMS = [
    ROOF,
    {"messages": [["user", ROOF]]},
    {"messages": [("assistant", "Ask me."), ("user", ROOF)]},
    {"messages": [{"role": "system", "content": ROOF}]},
    {"messages": [{"role": "user", "content": ROOF}, {"role": "assistant", "content": "Slate."}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": ROOF}]}]},
    {"messages": [{"role": "user", "content": [ROOF]}]},
    {"messages": [ROOF]},
    {"query": ROOF, "history": [["user", "Hello"]]},
    {"query": ROOF},
]


@pytest.mark.parametrize("request_", FORMS)
def test_the_scores_see_the_question_that_judges_see(request_):
    """Every form of a chat, also pairs and a chat with a system message only."""
    assert _text.question(Record(request=request_)) == ROOF
    assert split_request(request_)[0] == ROOF
    assert question(request_) == ROOF


@pytest.mark.parametrize("request_", [None, "", {"field": "roof", "chunks": ["a", "b"]}, {}])
def test_what_is_no_chat_asks_nothing(request_):
    """The arguments of a function may hold the chunks themselves, so they are not a question."""
    assert _text.question(Record(request=request_)) == ""


def test_a_long_question_is_read_from_its_end():
    """A pasted document usually stands before what is asked of it."""
    found = _text.question(Record(request="x" * 1_000_000 + ROOF))
    assert found.endswith(ROOF)
    assert len(found) == MAX_QUESTION
