"""Spans finished by the delivery thread nest as if they had been finished at once."""

from contextlib import closing

import pytest

from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.span_lists import Query, list_page


CALL = "OpenAI.createChatCompletion"


@pytest.fixture(scope="module")
def arrived(agent, tmp_path_factory):
    found = agent.run("nesting.py", folder=tmp_path_factory.mktemp("nesting"))
    assert found.code == 0, found.errors[-3_000:]
    assert "problems {} complete True" in found.output
    return found


def tree(arrived, name):
    (root,) = arrived.roots(name)
    return arrived.tree(root)


def test_an_instrumented_client_nests_below_ours_with_the_prompt(arrived):
    """The prompt and the tags of annotation_context reach the span that ddtrace makes."""
    assert tree(arrived, "plain") == ("plain", ("step", CALL))
    (call,) = arrived.children(arrived.children(arrived.roots("plain")[0])[0])
    assert call["meta"]["input"]["prompt"]["id"] == "greet"
    assert "where:inside" in call["tags"]


def test_a_prompt_annotated_on_ours_is_inherited_at_once(arrived):
    """As with ddtrace's own annotate, an instrumented call inherits it."""
    assert tree(arrived, "prompted") == ("prompted", CALL)
    (call,) = arrived.children(arrived.roots("prompted")[0])
    assert call["meta"]["input"]["prompt"]["id"] == "own"


def test_coroutines_that_run_at_once_keep_their_children_apart(arrived):
    """Each of five has its own call below it."""
    assert tree(arrived, "gathered") == ("gathered", *[("async_step", CALL)] * 5)


def test_threads_with_our_context_nest(arrived):
    """Our executor and copy_context carry ddtrace's span too."""
    assert tree(arrived, "threaded") == ("threaded", *[("step", CALL)] * 4)


def test_what_runs_between_the_steps_of_a_generator_is_a_sibling(arrived):
    """A suspended generator's span is not active in its caller; ddtrace's own decorator's is."""
    wanted = (("tokens", CALL), "sibling", "sibling")
    assert tree(arrived, "generating") == ("generating", *wanted)
    wanted = (("async_tokens", CALL), "sibling", "sibling")
    assert tree(arrived, "async_generating") == ("async_generating", *wanted)


def test_a_returned_generator_is_active_in_its_steps_only(arrived):
    """What runs before its first step is a sibling, too."""
    wanted = (("tokens", CALL), "sibling", "sibling", "sibling")
    assert tree(arrived, "returning") == ("returning", *wanted)


def test_a_child_that_begins_after_its_parent_was_sent_still_nests(arrived):
    """By itself, ddtrace would make it a trace of its own."""
    assert tree(arrived, "starts_work") == ("starts_work", ("step", CALL))


def test_many_threads_and_levels_nest(arrived):
    """Forty requests in eight threads, and twenty levels, all whole."""
    whole = ("deep", ("deep", ("deep", CALL)))
    found = [arrived.tree(root) for root in arrived.roots("deep")]
    assert found.count(whole) == 40
    assert len(found) == 41


def test_ours_nest_below_a_span_of_ddtrace(arrived):
    """An app may mix both; the trace is one."""
    assert tree(arrived, "theirs") == ("theirs", ("step", CALL))
    (root,) = arrived.roots("theirs")
    assert {s["trace_id"] for s in arrived.children(root)} == {root["trace_id"]}


def test_every_parent_is_there(arrived):
    """No span points to one that did not arrive."""
    ids = {span["span_id"] for span in arrived.spans} | {"undefined"}
    assert {span["parent_id"] for span in arrived.spans} <= ids


def test_what_stands_below_a_span_of_ddtrace_is_a_request_of_the_store(agent, tmp_path):
    """The store does not have ddtrace's own span: of two below it, which are one, the first is."""
    found = agent.run("mixed.py", folder=tmp_path)
    assert found.code == 0, found.errors[-3_000:]
    with closing(StoreReader(tmp_path / "store.db")) as reader:
        listed = reader.read(lambda c: list_page(c, Query(order="oldest"))).items
    theirs = found.roots("theirs")[0]["span_id"]
    outside = [each.outside_parent for each in listed]
    assert [each.name for each in listed] == ["answer", "answer"]
    assert outside == [None, f"{int(theirs):016x}"]
