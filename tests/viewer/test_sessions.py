"""The pages of sessions: the list, and one conversation with all that was said of it."""

import html
import re

from seen_pages import Tags, text_of
from viewer_store import HOSTILE

from llmeval_sdk.model import Usage
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.sessions import session_turns
from llmeval_sdk.store.span_lists import Query, list_page


BEGIN = 1_800_000_000_000_000_000


def turn(store, session, number, *, asked=None, **given):
    """Return the span of one turn, each ten seconds after the one before."""
    return store.span(
        "support", session_id=session, start_ns=BEGIN + number * 10 * 10**9, kind="agent",
        **{"request": asked or f"question {number}", "response": f"answer {number}", **given},
    )  # fmt: skip


def chat(store, session="chat-7", turns=3):
    """Write a session; returns the root spans of its turns."""
    roots = [turn(store, session, number) for number in range(1, turns + 1)]
    store.write(spans=roots)
    return roots


def judge(store, root, period, value, **metadata):
    marks = {"scope": "session", "session_id": root.session_id, "period": period}
    return store.score(
        root, "goal_reached", value, evaluator_kind="judge", explanation=f"said in {period}",
        metadata={**marks, **metadata},
    )  # fmt: skip


def test_a_session_is_shown_as_its_turns(store, site):
    """What was asked and answered stands in order, with time, scores and a link to the trace."""
    roots = chat(store)
    store.write(evaluations=[store.score(roots[1], "groundedness_risk", 0.9)])
    page = site.get("/session", id="chat-7")
    words = text_of(page)
    assert page.status == 200
    places = [words.index(f"{what} {n}") for n in (1, 2, 3) for what in ("question", "answer")]
    assert places == sorted(places)
    second = page.text.split('id="turn-2"')[1].split('id="turn-3"')[0]
    assert "groundedness_risk" in second
    assert f"/traces/{roots[1].trace_id}?span={roots[1].span_id}" in second


def test_a_session_says_what_all_of_it_took(store, site):
    """Turns, time, errors, tokens and cost are those of all turns, nested calls counted once."""
    roots = chat(store)
    calls = [
        store.span(
            "chat", trace=root.trace_id, parent=root, kind="llm", session_id="chat-7",
            usage=Usage(1_000, 50, 1_050, 0.02 if root is not roots[0] else None),
        )
        for root in roots
    ]  # fmt: skip
    store.write(spans=calls)
    words = re.sub(r"\s+", " ", text_of(site.get("/session", id="chat-7")))
    assert "Turns 3 " in words
    assert "3,000 in, 150 out" in words
    assert "$0.0400 of 2 of 3 calls" in words
    assert re.search(r"From first to last 20(\.\d+)? s", words), words[:600]


def test_the_verdict_that_counts_comes_with_its_history(store, site):
    """The newest is the session's; the former ones are marked as such, with their pause."""
    roots = chat(store)
    store.write(evaluations=[judge(store, roots[0], 1, "no"), judge(store, roots[2], 2, "yes")])
    page = site.get("/session", id="chat-7").text
    verdict, history = page.split('id="whole"')[1].split("<details")
    assert ">yes<" in verdict
    assert ">no<" not in verdict
    assert "1 before it" in history
    assert "said in 1" in history
    (listed,) = re.findall(
        r'<td class="said-list">(.*?)</td>', site.get("/sessions").text, re.DOTALL
    )
    assert ">yes<" in listed
    assert ">no<" not in listed


def test_a_verdict_that_names_turns_is_marked_at_them(store, site):
    """And leads to them, on whatever page of the session they stand."""
    roots = chat(store, turns=70)
    store.write(evaluations=[judge(store, roots[-1], 1, "no", turns=[2, 65, "x", None])])
    page = site.get("/session", id="chat-7").text
    assert "goal_reached" in page.split('id="turn-2"')[1].split('id="turn-3"')[0]
    link = html.unescape(re.search(r'href="(/session\?id=chat-7&amp;turn=65#turn-65)"', page)[1])
    later = site.send("GET", link.partition("#")[0]).text
    assert "goal_reached" in later.split('id="turn-65"')[1].split('id="turn-66"')[0]
    assert 'id="turn-61"' in later
    assert 'id="turn-60"' not in later


def test_a_verdict_that_says_when_its_turn_began_is_marked_at_that_turn(store, site):
    """A call that only asked for a tool stands in the list, and is no turn of the verdict's count."""
    roots = chat(store)
    about = {"turns": [2], "turn_starts_ns": [roots[2].start_ns]}
    store.write(evaluations=[judge(store, roots[-1], 1, "no", **about)])
    page = site.get("/session", id="chat-7").text
    assert "goal_reached" not in page.split('id="turn-2"')[1].split('id="turn-3"')[0]
    assert "goal_reached" in page.split('id="turn-3"')[1]


def test_a_long_session_is_read_page_by_page(store, site):
    """A page has thirty turns, however many there are, and a link leads to any of them."""
    chat(store, turns=100)
    page = site.get("/session", id="chat-7").text
    assert page.count('<li id="turn-') == 30
    assert "Turns 1 to 30 of 100" in page
    assert "question 100" in text_of(site.get("/session", id="chat-7", turn="91"))
    for odd in ("0", "-1", "x", "9" * 30, "99999"):
        assert site.get("/session", id="chat-7", turn=odd).status == 200


def test_what_lies_inside_a_turn_is_no_turn_of_its_own(store, site):
    """Nested workflows belong to the turn; a silent span around a whole chat is none."""
    around = store.span("whole chat", session_id="chat-7", start_ns=BEGIN, end_ns=BEGIN + 10**12)
    root = turn(store, "chat-7", 1, trace=around.trace_id, parent=around)
    inner = turn(store, "chat-7", 1, asked="inner", trace=around.trace_id, parent=root)
    distant = turn(store, "chat-7", 2, trace="d" * 32)
    store.write(spans=[around, root, inner, distant])
    words = text_of(site.get("/session", id="chat-7"))
    assert "question 1" in words
    assert "question 2" in words
    assert "inner" not in words
    assert "whole chat" not in words


def test_the_last_message_of_a_chat_is_what_was_asked(store, site):
    """Each turn of a chat repeats the turns before it; the page does not."""
    messages = [{"role": "user", "content": "first"}, {"role": "assistant", "content": "well"}]
    messages.append({"role": "user", "content": "second"})
    store.write(spans=[turn(store, "chat-7", 1, request={"messages": messages})])
    words = text_of(site.get("/session", id="chat-7"))
    assert "second" in words
    assert "first " not in words.split("Conversation")[1]


def test_tools_of_a_turn_are_named(store, site):
    """Those that failed stand out."""
    (root,) = chat(store, turns=1)
    from llmeval_sdk.model import Failure

    calls = [
        store.span(
            f"tool_{n}", trace=root.trace_id, parent=root, kind="tool", start_ns=root.start_ns + n,
            error=Failure("Timeout", "late") if n == 2 else None,
        )
        for n in range(1, 16)
    ]  # fmt: skip
    store.write(spans=calls)
    page = site.get("/session", id="chat-7").text
    assert 'class="pill bad cut" title="Timeout">tool_2<' in page
    assert "and 3 more" in page


def test_sessions_are_listed_once_the_latest_first(store, site):
    """However many turns they have; a session's page is a click away."""
    chat(store, "older", turns=4)
    store.write(spans=[turn(store, "newer", 50)])
    page = site.get("/sessions").text
    assert re.findall(r'href="/session\?id=(\w+)"', page) == ["newer", "older"]
    store.write(spans=[turn(store, "older", 60)])
    page = site.get("/sessions").text
    assert re.findall(r'href="/session\?id=(\w+)"', page) == ["older", "newer"]


def test_more_sessions_than_a_page_has_are_on_the_next(store, site):
    """Each is on one of them."""
    store.write(spans=[turn(store, f"s{number}", number) for number in range(120)])
    seen, address = [], "/sessions"
    while address:
        page = site.send("GET", address).text
        seen += re.findall(r'href="/session\?id=(\w+)"', page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        address = html.unescape(following[1]) if following else ""
    assert seen == [f"s{number}" for number in reversed(range(120))]


def test_hostile_sessions_are_only_text(store, site):
    """Ids, texts, verdicts and metadata are shown and never obeyed."""
    root = turn(store, HOSTILE, 1, asked=HOSTILE, response=HOSTILE * 100)
    marks = {"scope": "session", "session_id": HOSTILE[:256], "period": HOSTILE, "turns": [HOSTILE]}
    score = store.score(root, HOSTILE, HOSTILE, explanation=HOSTILE, metadata=marks)
    store.write(spans=[root], evaluations=[score])
    for path, query in (("/sessions", {}), ("/session", {"id": HOSTILE})):
        page = site.get(path, **query)
        assert page.status == 200, path
        found = Tags(page.text)
        assert "img" not in found.tags
        assert not any(name.startswith("on") for name in found.attributes)
        assert all(link.startswith(("/", "#")) for link in found.links), path
        assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x1b]", page.text)


def test_a_huge_turn_makes_no_huge_page(store, site):
    """Ten megabytes are a link away."""
    store.write(spans=[turn(store, "s", n, response="x" * 2_000_000) for n in range(5)])
    page = site.get("/session", id="s")
    assert len(page.text) < 60_000
    assert "the whole text" in page.text


def test_an_unknown_session_is_said_to_be_none(store, site):
    store.trace()
    assert site.get("/session", id="nothing").status == 404
    assert site.get("/session").status == 404
    assert "No sessions yet" in site.get("/sessions").text


def test_a_list_of_a_session_shows_the_turns_that_its_page_shows(store):
    """A span around two turns that says nothing itself is a turn of neither."""
    wrap = store.span("wrap", session_id="s", start_ns=BEGIN, end_ns=BEGIN + 10**12)
    inner = [
        turn(store, "s", number, trace=wrap.trace_id, parent=wrap, asked=f"inner {number}")
        for number in (1, 2)
    ]
    store.write(spans=[wrap, *inner])
    with StoreReader(store.path) as reader:
        listed = reader.read(lambda c: list_page(c, Query(session="s"))).items
        turns = reader.read(lambda c: session_turns(c, "s"))
    assert {item.span_id for item in listed} == {one.span_id for one in turns}
    assert len(turns) == 2


def test_the_sessions_of_a_user_are_listed(store, site):
    """By the latest request of that user in each; and the page of a session leads there."""
    for number, (session, user) in enumerate((("a", "anna"), ("b", "ben"), ("c", "anna"))):
        first = turn(store, session, number, tags={"user_id": user})
        store.write(spans=[first, turn(store, session, number + 10)])
    listed = site.get("/sessions", user="anna").text
    assert re.findall(r'href="/session\?id=(.)"', listed) == ["c", "a"]
    assert re.findall(r'href="/session\?id=(.)"', site.get("/sessions").text) == ["c", "b", "a"]
    assert "No session of this user" in site.get("/sessions", user="nobody").text
    assert 'href="/sessions?user=ben"' in site.get("/session", id="b").text


def test_a_session_is_a_users_where_only_a_call_inside_names_the_user(store, site):
    """An app may say whose a request is below the workflow that it decorated."""
    asked = turn(store, "a", 0)
    call = store.span("chat", trace=asked.trace_id, parent=asked, kind="llm",
                      tags={"user_id": "anna"})  # fmt: skip
    store.write(spans=[asked, call, turn(store, "b", 10)])
    listed = site.get("/sessions", user="anna").text
    assert re.findall(r'href="/session\?id=(.)"', listed) == ["a"]


def test_the_form_of_a_user_shows_what_was_typed_as_text(store, site):
    """Whatever was typed; an id that nobody has is no error."""
    chat(store)
    for typed in (HOSTILE, "%", "'", "x" * 5_000):
        page = site.get("/sessions", user=typed)
        assert page.status == 200
        assert "<script>" not in page.text
