"""Requests in all their forms have one last question and a history."""

import pytest

from llmeval_sdk.judges.prompt import split_request


@pytest.mark.parametrize(
    ("request_", "query", "history"),
    [
        (None, "", []),
        ("plain", "plain", []),
        ({"messages": [{"role": "user", "content": "a"}]}, "a", []),
        (
            {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
            "a",
            [],
        ),
        ({"messages": [{"role": "system", "content": "s"}]}, "s", []),
        (
            {
                "messages": [
                    {"role": "assistant", "content": None},
                    {"role": "user", "content": "q"},
                ]
            },
            "q",
            [("assistant", "")],
        ),
        ({"query": "q"}, "q", []),
        ({"query": "q", "history": None}, "q", []),
        (
            {"query": "q", "history": [{"role": "user", "content": "h"}, ("assistant", "i"), "j"]},
            "q",
            [("user", "h"), ("assistant", "i"), ("user", "j")],
        ),
        ({"query": "q", "history": "told"}, "q", [("user", "told")]),
        ({"query": 5}, "5", []),
        ({"field": "roof", "n": 2}, '{"field": "roof", "n": 2}', []),
        ({"messages": []}, '{"messages": []}', []),
        ({"messages": "text"}, '{"messages": "text"}', []),
    ],
)
def test_each_form_is_split(request_, query, history):
    """The last user message is the request; what came before it is history."""
    assert split_request(request_) == (query, history)
