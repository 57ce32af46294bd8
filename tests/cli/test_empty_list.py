"""A list of requests that is empty says what was looked for, and what was probably meant."""

import json

import pytest

from llmeval_sdk.model import Failure


FILTERS = ("--user", "berta", "--session", "chat-4", "--failed", "--since", "7d")


@pytest.mark.parametrize("worst", [(), ("--worst", "groundedness")], ids=["newest", "worst"])
def test_an_empty_list_names_its_filters(llmeval, store, worst):
    """A store with requests is not taken for an empty one because a filter matched none."""
    store.evaluation(store.span("ab" * 8), "groundedness", 0.4)
    asked = llmeval("traces", "--store", store.path, *FILTERS, *worst)
    assert asked.returncode == 1
    shown = " ".join(asked.stdout.split())
    assert "No request of user berta of session chat-4 that failed since " in shown
    assert (" was scored by groundedness in " in shown) is bool(worst)


@pytest.mark.parametrize(
    ("command", "code"),
    [(("traces",), 1), (("explain",), 1), (("dataset", "add", "answers"), 2)],
    ids=["traces", "explain", "dataset add"],
)
def test_a_misspelt_evaluator_is_told_the_nearest(llmeval, store, command, code):
    """`--worst grundedness` names the evaluator of the store that was probably meant."""
    store.evaluation(store.span("ab" * 8), "groundedness", 0.4)
    asked = llmeval(*command, "--store", store.path, "--worst", "grundedness")
    assert asked.returncode == code
    shown = " ".join((asked.stdout + asked.stderr).split())
    assert "grundedness has scored no request of this store: did you mean 'groundedness'?" in shown


@pytest.mark.parametrize("value", [0.25, "bad"], ids=["numbers", "words"])
def test_the_worst_of_a_user_of_a_session_or_of_what_failed_are_listed(llmeval, store, value):
    """`--worst` takes the filters that the newest requests take."""
    error = Failure("TimeoutError")
    about = [
        {"tags": {"user_id": "anna"}, "session_id": "one"},
        {"tags": {"user_id": "berta"}, "session_id": "two"},
        {"tags": {"user_id": "anna"}, "session_id": "two", "error": error},
    ]
    for number, known in enumerate(about, 1):
        span = store.span(f"{number:016x}", trace_id=f"{number:032x}", **known)
        store.evaluation(span, "groundedness", value, label="fail")

    def listed(*filters):
        asked = ("traces", "--store", store.path, "--worst", "groundedness", "--json", *filters)
        return {int(row["span_id"], 16) for row in json.loads(llmeval(*asked).stdout)}

    assert listed() == {1, 2, 3}
    assert listed("--user", "anna") == {1, 3}
    assert listed("--session", "two") == {2, 3}
    assert listed("--user", "anna", "--session", "two") == {3}
    assert listed("--failed") == {3}
