"""A list of requests that is empty says what was looked for, and what was probably meant."""

import json

import pytest

from llmeval_sdk.model import Failure
from llmeval_sdk.store.identities import Identities


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


def test_the_worst_of_a_session_are_found_by_its_id_and_by_its_hash(llmeval, store):
    """Requests from before there was a key have the id as it is; both kinds are one list."""
    key = "a key that every host has"
    hashed = Identities(key).hashed("chat-7")
    for number, session in enumerate(("chat-7", hashed, "chat-7"), 1):
        span = store.span(f"{number:016x}", trace_id=f"{number:032x}", session_id=session)
        store.evaluation(span, "groundedness", (0.5, 0.2, 0.8)[number - 1])
    asked = ("traces", "--store", store.path, "--session", "chat-7", "--json")
    done = llmeval(*asked, "--worst", "groundedness", LLMEVAL_HASH_IDS=key)
    assert [int(row["span_id"], 16) for row in json.loads(done.stdout)] == [2, 1, 3]
