"""However a process ends, its spans and its scores arrive: ddtrace alone loses some of each."""

import pytest


ALONE = {
    "normal": 0, "sys.exit": 3, "raise": 1, "sigterm": -15, "sigterm-handled": 7, "os._exit": 0,
    "inside": 0, "thread": 0, "forked-parent": 0,
}  # fmt: skip
WITH_CHILD = ("fork-exit", "fork-flush", "fork-wait", "span-over-fork")


def names(found):
    return sorted(tag for each in found for tag in each["tags"] if tag.startswith("name:"))


@pytest.mark.parametrize("mode", ["agent", "no-apm"])
@pytest.mark.parametrize("way", ALONE)
def test_spans_and_scores_survive_the_end(agent, tmp_path, way, mode):
    """Once each, and the process ends with the code it would have had."""
    arrived = agent.run("ends.py", way, mode=mode, folder=tmp_path)
    assert arrived.code == ALONE[way], arrived.errors[-2_000:]
    assert names(arrived.spans) == ["name:parent"]
    assert names(arrived.evaluations) == ["name:parent"]
    assert arrived.seconds < 6


@pytest.mark.parametrize("way", WITH_CHILD)
def test_a_forked_child_and_its_parent_deliver_each_their_own(agent, tmp_path, way):
    """Nothing is lost with a fork, and nothing is sent by both."""
    arrived = agent.run("ends.py", way, folder=tmp_path)
    assert arrived.code == 0
    assert names(arrived.spans) == ["name:child", "name:parent"]
    assert names(arrived.evaluations) == ["name:child", "name:parent"]


def test_a_span_that_was_open_over_a_fork_is_the_parents(agent, tmp_path):
    """It arrives once, with the child's request below it."""
    arrived = agent.run("ends.py", "span-over-fork", folder=tmp_path)
    around = arrived.span("around")
    assert [each["name"] for each in arrived.children(around)] == ["request"]
