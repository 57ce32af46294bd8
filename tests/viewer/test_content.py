"""Requests and answers are shown as people read them: chats, trees, Markdown; nothing is obeyed."""

import re

import pytest
from counted import calls_of
from seen_pages import Tags, text_of
from viewer_store import HOSTILE

from llmeval_sdk.viewer._render import content_of, rendered


def shown(store, site, **given):
    root = store.span(**given)
    store.write(spans=[root])
    return site.get(f"/traces/{root.trace_id}", span=root.span_id)


def test_a_chat_is_shown_as_turns(store, site):
    """Who said what stands apart, tool calls have their arguments beside their results."""
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where is A17?"},
        {"role": "assistant", "tool_calls": [
            {"id": "1", "function": {"name": "get_order", "arguments": '{"id": "A17"}'}}]},
        {"role": "tool", "tool_call_id": "1", "content": '{"state": "shipped"}'},
    ]  # fmt: skip
    page = shown(store, site, request={"model": "gpt-4o", "messages": messages}, kind="llm").text
    chat = page.split('class="chat"')[1].split("</ol>")[0]
    assert re.findall(r'class="said (\w+)"', chat) == ["system", "user", "tool"]
    assert "get_order" in chat
    assert "shipped" in chat
    assert "Beside the messages" in page


def test_a_long_chat_keeps_both_ends(store, site):
    messages = [{"role": "user", "content": f"message {n}"} for n in range(1_000)]
    page = shown(store, site, request={"messages": messages})
    words = text_of(page)
    assert "message 0 " in words
    assert "message 999 " in words
    assert "960 messages are left out here" in words


def test_other_values_are_trees(store, site):
    """With keys and values apart, and a link to what was captured."""
    page = shown(store, site, request={"field": "roof", "limits": {"bm25": 20}})
    assert '<bdi class="key">bm25</bdi>' in page.text
    assert "As it was captured" in page.text


def test_markdown_is_formatted(store, site):
    answer = "# Roof\n\nIt is **slate**:\n\n- old\n- grey\n\n| a | b |\n|-|-|\n| 1 | 2 |\n\n`code`"
    found = Tags(shown(store, site, response=answer).text)
    assert {"strong", "li", "td", "code"} <= found.tags


def test_plain_text_stays_as_it_was_written(store, site):
    page = shown(store, site, response="two  spaces\n\n\nthree lines").text
    assert "two  spaces\n\n\nthree lines" in page


@pytest.mark.parametrize(
    "attack",
    [
        "[a](javascript:alert(1))", "![a](http://evil.example/x.png)", "<http://evil.example>",
        "<script>alert(1)</script>", "[a]: http://evil.example\n\n[a]", "&lt;script&gt;",
        "<img src=x onerror=alert(1)>", "```html\n<script>alert(1)</script>\n```",
        '```x" onmouseover="alert(1)\ntext\n```', "http://evil.example", HOSTILE,
    ],
)  # fmt: skip
def test_markdown_is_never_obeyed(store, site, attack):
    """No link, image, script or attribute comes of what a model wrote."""
    page = shown(store, site, request="q", response=f"**bold**\n\n{attack}\n\n- item {attack}").text
    found = Tags(page)
    assert "strong" in found.tags
    assert "img" not in found.tags
    assert not any(name.startswith("on") for name in found.attributes)
    assert all(link.startswith(("/", "#")) for link in found.links)
    assert page.count("<script") == 1


HARD = {
    "emphasis": "*a " * 2_660, "nested": "*_" * 4_000, "brackets": "[" * 8_000,
    "lines": "# a\n" * 199, "quotes": "> " * 4_000, "lists": "- " * 4_000,
    "wide table": "|a" * 200 + "\n" + "|-" * 200 + "\n" + "|\n" * 190,
    "table": "|a" * 19 + "|\n" + "|-" * 19 + "|\n" + "|\n" * 190, "ticks": "`" * 8_000,
}  # fmt: skip


@pytest.mark.parametrize("text", HARD.values(), ids=HARD)
def test_hard_markdown_takes_bounded_work(text):
    assert calls_of(lambda: rendered(text)) < 400_000


@pytest.mark.parametrize("text", ["x **y** " * 10_000, "# a\n" * 1_000])
def test_too_much_markdown_stays_text(text):
    assert rendered(text) is None


@pytest.mark.parametrize(
    "value",
    [
        None, True, 1.5, "", [], {}, [1, {"a": 2}], {"messages": []}, {"messages": "x"},
        {"messages": [None, 1, {"role": 7, "content": {}}]}, [{"role": None}],
        [{"type": "ai", "data": 3}], "[1, 2", '{"messages": [{"role": "user", "content": "x"}]}',
    ],
)  # fmt: skip
def test_any_value_is_shown_in_one_form(value):
    content = content_of(value)
    forms = [content.text, content.formatted, content.tree, content.messages or None]
    assert sum(form is not None for form in forms) == 1
