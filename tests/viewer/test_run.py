"""The page of an agent's run: its steps in order, with what went wrong marked where it did."""

import json
import re

import pytest
from seen_pages import Tags, text_of
from viewer_store import HOSTILE

import llmeval_sdk as llmeval
from llmeval_sdk.model import Failure
from llmeval_sdk.viewer._render import MAX_NODES, folded


def step_of(page, number):
    """Return the markup of one step."""
    return page.split(f'id="step-{number}"')[1].split("</li>")[0]


def call(store, root, name, number, *, took=1_000, parent=None, **given):
    start = root.start_ns + number * 10_000
    return store.span(
        name, trace=root.trace_id, parent=parent or root, kind="tool", start_ns=start,
        end_ns=start + took, **given,
    )  # fmt: skip


@pytest.fixture
def shop(store):
    """Write a run with a failed call, parallel ones, a sub-agent and a fault; returns its root."""
    root = store.span("support", kind="agent", request="Refund A17.", response="Done.")
    look = call(store, root, "get_order", 1, request={"id": "A17"}, response={"state": "shipped"})
    late = Failure("Timeout", "too late")
    pay = call(store, root, "refund", 2, request={"id": "A17"}, error=late, took=50_000)
    mail = call(store, root, "send_mail", 3, request={"to": "ann@shop.example"}, response="sent")
    helper = store.span("helper", trace=root.trace_id, parent=root, kind="agent",
                        start_ns=root.start_ns + 90_000)  # fmt: skip
    inner = call(store, root, "search", 10, parent=helper, request={"q": "A17"}, response="[]")
    fault = store.score(
        root, "ignored_errors", 1.0, explanation="step 3: refund failed", metadata={"steps": [3]}
    )
    store.write(spans=[root, look, pay, mail, helper, inner], evaluations=[fault])
    return root


def test_a_run_is_shown_step_by_step(shop, site):
    """Question, calls and answer stand in order, with arguments, results, errors and times."""
    page = site.get(f"/traces/{shop.trace_id}").text
    words = text_of(type("Page", (), {"text": page.split('id="run"')[1]}))
    expected = ("Refund A17.", "get_order", "refund", "send_mail", "search", "Done.")
    assert all(word in step_of(page, number) for number, word in enumerate(expected, 1))
    assert "6 steps, 4 tool calls" in words
    assert "shipped" in step_of(page, 2)
    assert "Timeout: too late" in step_of(page, 3)
    assert "took 50" in text_of(type("Page", (), {"text": step_of(page, 3)}))
    assert "parallel to 3" in step_of(page, 4)
    assert "by <bdi>helper</bdi>" in step_of(page, 5)
    assert "writes" in step_of(page, 3)
    assert "writes" not in step_of(page, 2)


def test_a_fault_is_marked_at_its_step(shop, site):
    """By the number in the evaluation's metadata, and a list above leads to it."""
    page = site.get(f"/traces/{shop.trace_id}").text
    assert "ignored_errors" in step_of(page, 3)
    assert "refund failed" in step_of(page, 3)
    assert "ignored_errors" not in step_of(page, 2)
    assert 'step=3#step-3">3</a>' in page.split('class="faults"')[1].split("</ul>")[0]


def test_the_step_that_a_score_names_is_the_step_that_is_marked(store, site, tmp_path):
    """A live run, scored by the real heuristics and written by the real exporter."""

    class RefusedError(Exception):
        pass

    @llmeval.tool
    def look_up(key: str) -> str:
        return "nothing"

    @llmeval.agent
    def assistant(question: str) -> str:
        look_up("first")
        for _ in range(3):
            look_up("again")
        return "I found nothing."

    llmeval.configure(exporters=["local"], store=store.path)
    assistant("Where is my order?")
    llmeval.flush()
    listed = site.get().text
    trace = re.search(r'href="/traces/([0-9a-f]{32})', listed)[1]
    page = site.get(f"/traces/{trace}").text
    faults = page.split('class="faults"')[1].split("</ul>")[0]
    assert "tool_call_loop" in faults
    assert "tool_call_loop" not in step_of(page, 2)
    assert "tool_call_loop" in step_of(page, 4)
    assert "from here on" in step_of(page, 4)
    assert "from here on" not in step_of(page, 5)  # the explanation is of the first step
    assert "again" in step_of(page, 4)


def test_a_run_that_only_messages_tell_of_is_shown(store, site):
    """Of an agent whose tools have no spans, the longest model call tells the run."""
    root = store.span("graph", request="Cancel A17.", response="It is cancelled.")
    messages = [
        {"role": "user", "content": "Cancel A17."},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "1", "function": {"name": "cancel_order", "arguments": '{"id": "A17"}'}}]},
        {"role": "tool", "tool_call_id": "1", "content": '{"state": "cancelled"}'},
    ]  # fmt: skip
    model = store.span(
        "chat", trace=root.trace_id, parent=root, kind="llm", request={"messages": messages},
        response="It is cancelled.",
    )  # fmt: skip
    store.write(spans=[root, model])
    page = site.get(f"/traces/{root.trace_id}", span=root.span_id).text
    assert "cancel_order" in step_of(page, 2)
    assert "cancelled" in step_of(page, 2)
    assert "It is cancelled." in step_of(page, 3)


def test_what_judges_of_steps_said_stands_at_each(shop, store, site):
    """Each rating with its reason, by the number of the rated step."""
    metadata = {
        "rated_steps": [2, 4], "ratings": ["yes", "no"], "rationales": ["fine", "not asked for"],
        "steps": [4],
    }  # fmt: skip
    rated = store.score(shop, "allowed", 0.5, evaluator_kind="judge", metadata=metadata)
    store.write(evaluations=[rated])
    page = site.get(f"/traces/{shop.trace_id}").text
    assert "not asked for" in step_of(page, 4)
    assert "fine" in step_of(page, 2)


def test_a_trace_without_tools_has_no_run(store, site):
    root = store.trace()
    assert 'id="run"' not in site.get(f"/traces/{root.trace_id}").text


def test_a_run_of_ten_thousand_calls_is_read_page_by_page(store, site):
    """A page has forty of them, and a link leads to any of them."""
    root = store.span("endless", kind="agent", request="Go.", response="No.")
    calls = [call(store, root, "poll", n, request={"n": n}) for n in range(1, 10_001)]
    fault = store.score(root, "tool_call_loop", 9.0, metadata={"steps": [8_999, 9_000]})
    store.write(spans=[root, *calls], evaluations=[fault])
    answer = site.get(f"/traces/{root.trace_id}", span=root.span_id, step="9000")
    page = answer.text
    assert answer.status == 200, page
    assert len(re.findall(r'<li id="step-\d+', page)) == 40
    assert "of 10,002" in page
    assert ">8999<" in step_of(page, 9_000)
    assert "tool_call_loop" in step_of(page, 8_999)


def test_a_run_is_bounded_in_depth_and_loops(store, site):
    """Tools within tools within tools, and parents in a circle, are shown once each."""
    root = store.span("deep", kind="agent", request="Go.")
    above, spans = root, [root]
    for number in range(1, 2_000):
        above = call(store, root, "nest", number, parent=above)
        spans.append(above)
    one = call(store, root, "circle", 5_000)
    two = call(store, root, "circle", 5_001, parent=one)
    from dataclasses import replace

    store.write(spans=[*spans, replace(one, parent_id=two.span_id), two])
    page = site.get(f"/traces/{root.trace_id}", span=root.span_id)
    assert page.status == 200
    assert "inside" in page.text
    assert "2,000 steps" in page.text


def test_huge_results_make_no_huge_page(store, site):
    """Ten results of megabytes, and one of a hundred thousand fields."""
    root = store.span("big", kind="agent", request="Go.")
    calls = [call(store, root, "read", n, response="y" * 3_000_000) for n in range(1, 4)]
    wide = {f"field_{n}": "x" * 40 for n in range(1_000)}
    calls += [call(store, root, "wide", n, response=wide) for n in range(5, 15)]
    store.write(spans=[root, *calls])
    page = site.get(f"/traces/{root.trace_id}", span=root.span_id)
    assert page.status == 200
    assert len(page.text) < 1_200_000
    assert "the whole text" in page.text
    whole = site.get(f"/traces/{root.trace_id}/{calls[0].span_id}/response")
    assert len(whole.text) >= 3_000_000 or "truncated" in whole.text


def test_hostile_runs_are_only_text(store, site):
    """Names, arguments, results, keys and metadata are shown and never obeyed."""
    root = store.span(HOSTILE, kind="agent", request=HOSTILE, response=HOSTILE)
    bad = call(
        store, root, HOSTILE, 1, request={HOSTILE: [HOSTILE, {HOSTILE: HOSTILE}]},
        response=json.dumps({HOSTILE: HOSTILE}), error=Failure(HOSTILE, HOSTILE),
    )  # fmt: skip
    metadata = {
        "steps": [2, HOSTILE, None, -1, 10**30, True], "rated_steps": [2, HOSTILE],
        "ratings": [HOSTILE], "rationales": HOSTILE,
    }  # fmt: skip
    score = store.score(root, HOSTILE, HOSTILE, explanation=HOSTILE, metadata=metadata)
    store.write(spans=[root, bad], evaluations=[score])
    for step in ("1", "x", "-5", "9" * 25):
        page = site.get(f"/traces/{root.trace_id}", span=root.span_id, step=step)
        assert page.status == 200
        assert 'id="step-2"' in page.text
        found = Tags(page.text)
        assert "img" not in found.tags
        assert not any(name.startswith("on") for name in found.attributes)
        assert all(link.startswith(("/", "#")) for link in found.links)
        assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x1b]", page.text)


def nodes(node):
    return 1 + sum(map(nodes, node.nodes))


@pytest.mark.parametrize(
    "value",
    [
        "text", "", None, 1.5, True, [], {}, {"a": [1, {"b": None}]}, "[" * 50_000, '{"a": 1}',
        list(range(100_000)), {"k" * 100_000: "v" * 1_000_000},
    ],
)  # fmt: skip
def test_any_value_folds_into_a_bounded_tree(value):
    tree = folded(value)
    assert nodes(tree) <= MAX_NODES + 1


def test_a_tree_says_what_it_leaves_out():
    tree = folded({"rows": list(range(1_000)), "deep": json.loads("[" * 50 + "]" * 50)})
    (rows, _) = tree.nodes
    assert rows.left_out == 1_000 - len(rows.nodes)
    assert folded('{"a": 1}').nodes[0].name == "a"
