"""The list shows what was asked for, in pages, whatever the store holds."""

import html
import re
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from viewer_store import Store

from llmeval_sdk import config
from llmeval_sdk.model import Usage
from llmeval_sdk.store.filters import add_functions, read_filter
from llmeval_sdk.store.identities import identities
from llmeval_sdk.store.labels import add_feedback_function
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.span_lists import Query, list_page, scan_of


def shown(page):
    """Return the span ids of a list's rows, in order."""
    return re.findall(r'<tr data-id="([0-9a-f]+)"', page.text)


def ids(*roots):
    return [root.span_id for root in roots]


def test_the_newest_trace_comes_first_with_its_scores(store, site):
    """A row has the request, the response, and a cell per evaluator."""
    old, new = store.trace("old question"), store.trace("new question", recall=0.25)
    page = site.get()
    assert page.status == 200
    assert shown(page) == ids(new, old)
    assert "new question" in page.text
    assert "0.25" in page.text


def test_judges_own_runs_are_listed_only_on_request(store, site):
    """What the app did is not buried under what judged it."""
    root = store.judged()
    assert shown(site.get()) == ids(root)
    assert len(shown(site.get(runs=1))) == 2


@pytest.fixture
def varied(store):
    """Return two traces that differ in all that lists can be filtered by."""
    session = {"session_id": "chat/7?", "tags": {"user_id": "42", 'odd "key': "x"}}
    slow = store.span(request="slow", start_ns=10**18, end_ns=10**18 + 3 * 10**9, **session)
    call = store.span(
        "chat", trace=slow.trace_id, parent=slow, kind="llm", model_name="gpt-4o",
        usage=Usage(9, 9, 18, 0.25), session_id="chat/7?",
    )  # fmt: skip
    inner = store.span("inner", trace=slow.trace_id, parent=slow, session_id="chat/7?")
    fast = store.span(request="fast", tags={"user_id": "43"})
    asked = store.span("chat", trace=fast.trace_id, parent=fast, kind="llm", tags={"user_id": "44"})
    store.write(spans=[slow, call, inner, fast, asked])
    return slow, fast


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"session": "chat/7?"}, [0]),
        ({"session": "chat"}, []),
        ({"tag": "user_id=42"}, [0]),
        ({"tag": "user_id"}, [1, 0]),
        ({"user": "42"}, [0]),
        ({"user": "4"}, []),
        ({"user": "44"}, [1]),
        ({"user": "42", "tag": "user_id=43"}, []),
        ({"tag": 'odd "key=x'}, [0]),
        ({"tag": "user_id=4"}, []),
        ({"model": "gpt-4o"}, [0]),
        ({"model": "gpt-4"}, []),
        ({"slower": "2.5"}, [0]),
        ({"slower": "3"}, []),
        ({"slower": "0.001s"}, [1, 0]),
        ({"dearer": "0.2"}, [0]),
        ({"dearer": "$0.25"}, []),
        ({"session": "chat/7?", "model": "gpt-4o", "slower": "1", "tag": "user_id=42"}, [0]),
        ({"slower": "soon"}, [1, 0]),
        ({"dearer": "nan"}, [1, 0]),
        ({"slower": "1e300"}, [1, 0]),
    ],
)
def test_lists_filter_by_session_tag_model_latency_and_cost(varied, site, query, expected):
    """Alone and together; what is no number is said and filters nothing."""
    page = site.get(**query)
    assert page.status == 200
    assert shown(page) == ids(*(varied[place] for place in expected))
    if query in ({"slower": "soon"}, {"dearer": "nan"}, {"slower": "1e300"}):
        assert "needs a number" in page.text


def test_lists_sort_by_every_column(store, site):
    """Time, duration and words, both ways and over several pages, each trace once."""
    words = ["mixed", "unanimous", "majority"]
    roots = [
        store.span(start_ns=10**18 + n, end_ns=10**18 + n + (n * 37 % 101) * 10**6)
        for n in range(1, 61)
    ]
    scores = [store.score(root, "agreement_pattern", words[n % 3]) for n, root in enumerate(roots)]
    store.write(spans=roots, evaluations=scores)
    took = {root.span_id: root.end_ns - root.start_ns for root in roots}
    said = {score.target.span_id: score.evaluation.value for score in scores}

    def every_row(sort):
        listed, address = [], f"/?sort={sort}"
        while address and len(listed) < 200:
            page = site.send("GET", address).text
            listed += re.findall(r'<tr data-id="([0-9a-f]+)"', page)
            following = re.search(r'rel="next" href="([^"]+)"', page)
            address = html.unescape(following[1]) if following else ""
        assert len(listed) == len(set(listed)) == 60
        return listed

    assert every_row("@time") == ids(*roots)
    assert [took[row] for row in every_row("@took")] == sorted(took.values(), reverse=True)
    assert [took[row] for row in every_row("-@took")] == sorted(took.values())
    ways = [[said[row] for row in every_row(f"{way}agreement_pattern")] for way in ("", "-")]
    assert sorted(ways) == sorted([sorted(said.values()), sorted(said.values(), reverse=True)])


def test_any_evaluation_filters_by_name_and_value(store, site):
    """Runs with a loop, runs that were hijacked, sessions that reached no goal: each is a list."""
    loop, calm, lost = (store.span("agent", kind="agent") for _ in range(3))
    marks = {"scope": "session", "session_id": "s"}
    store.write(
        spans=[loop, calm, lost],
        evaluations=[
            store.score(loop, "tool_call_loop", 4.0),
            store.score(calm, "tool_call_loop", 0.0),
            store.score(lost, "goal_reached", "no", evaluator_kind="judge", metadata=marks),
            store.score(calm, "polite", True),
        ],
    )
    for query, expected in (
        ({"evaluator": "tool_call_loop", "op": "above", "value": "0"}, [loop]),
        ({"evaluator": "goal_reached", "op": "is", "value": "no"}, [lost]),
        ({"evaluator": "polite", "op": "is", "value": "pass"}, [calm]),
    ):
        assert shown(site.get(**query)) == ids(*expected)


@pytest.fixture
def four(store):
    """Return an ordinary, a bad, a judged and a failed trace."""
    plain = store.trace("plain", recall=0.9)
    bad = store.trace("bad", recall=0.3, name="other")
    judged = store.judged("judged")
    failed = store.rich()
    return plain, bad, judged, failed


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, [3, 2, 1, 0]),
        ({"span": "other"}, [1]),
        ({"evaluator": "context_recall_heuristic", "op": "below", "value": "0.5"}, [2, 1]),
        ({"evaluator": "context_recall_heuristic", "op": "above", "value": "0.5"}, [0]),
        ({"evaluator": "groundedness", "op": "is", "value": "no"}, [2]),
        ({"evaluator": "groundedness", "op": "is", "value": "yes"}, []),
        ({"evaluator": "groundedness", "reason": "over_budget"}, [3]),
        ({"judge": "yes"}, [3, 2]),
        ({"judge": "escalated"}, [2]),
        ({"judge": "no"}, [1, 0]),
        ({"errors": "1"}, [3]),
        ({"range": "1h"}, [3, 2, 1, 0]),
        ({"q": "plain"}, [0]),
        ({"q": "barn roof is SLATE"}, [3, 2, 1, 0]),
        ({"q": "100% of it_"}, []),
        ({"sort": "context_recall_heuristic"}, [2, 1, 0]),
        ({"sort": "-context_recall_heuristic"}, [0, 1, 2]),
        ({"sort": "context_recall_heuristic", "judge": "no"}, [1, 0]),
    ],
)
def test_a_filter_leaves_what_fits_it(four, site, query, expected):
    """Every filter of the page, and orders by score, worst first."""
    page = site.get(**query)
    assert shown(page) == [four[place].span_id for place in expected]


def test_comparing_words_as_numbers_is_explained(four, site):
    """Nothing fits such a filter, and the page says why."""
    page = site.get(evaluator="groundedness", op="below", value="0.5")
    assert shown(page) == []
    assert "groundedness has given no numbers" in page.text


def test_the_control_sample_is_no_escalation(store, site):
    """Why a judge ran decides under which filter its record is found."""
    control = store.judged(why="control sample of 0.02: recall 0.9 >= 0.7")
    escalated = store.judged()
    store.judged(why="every record")
    assert shown(site.get(judge="control")) == ids(control)
    assert shown(site.get(judge="escalated")) == ids(escalated)


def test_a_risk_is_worst_where_it_is_highest(store, site):
    """Sorting by worst knows which end of a score is bad."""
    low, high = store.trace("low"), store.trace("high")
    scores = [
        store.score(low, "groundedness_risk", 0.1),
        store.score(high, "groundedness_risk", 0.9),
    ]
    store.write(evaluations=scores)
    assert shown(site.get(sort="groundedness_risk")) == ids(high, low)


@pytest.mark.parametrize("query", [{}, {"sort": "context_recall_heuristic"}, {"judge": "no"}])
def test_pages_hold_every_trace_once(store, site, query):
    """Following the next pages from the first one meets each trace exactly once."""
    roots = [store.trace(f"number {number}", recall=(number % 7) / 10) for number in range(120)]
    page, found = site.get(**query), []
    while True:
        found += shown(page)
        link = re.search(r'rel="next" href="([^"]+)"', page.text)
        if link is None:
            break
        page = site.send("GET", link[1].replace("&amp;", "&"))
    assert len(found) == len(roots)
    assert set(found) == set(ids(*roots))


def test_an_id_leads_straight_to_its_trace(store, site):
    """Searching for the beginning of a span or trace id opens it."""
    root = store.trace()
    for wanted in (root.span_id, root.trace_id):
        answer = site.get(q=wanted)
        assert answer.status == 303
        assert f"/traces/{root.trace_id}" in answer.headers["location"]


def test_columns_can_be_chosen(store, site):
    """The address names the score columns."""
    store.rich()
    page = site.get(col=["context_relevance"])
    heads = page.text[page.text.index("<thead>") : page.text.index("</thead>")]
    assert heads.count('class="scored"') == 1
    assert "relevance" in heads


@pytest.mark.parametrize(
    "query",
    [
        {"value": "a lot", "evaluator": "x", "op": "below"},
        {"after": "nonsense~"},
        {"after": "9" * 400 + "~1"},
        {"range": "forever"},
        {"judge": "maybe"},
        {"sort": "-"},
        {"q": "%_\\'\"\x00"},
        {"col": ["unknown"] * 50},
    ],
)
def test_an_address_that_makes_no_sense_is_still_a_page(four, site, query):
    """People edit addresses; nothing they write breaks a page."""
    assert site.get(**query).status == 200


def test_a_page_says_what_to_do_where_there_is_nothing(store, serve, tmp_path):
    """No store, an empty store and filters that fit nothing each say so."""
    site = serve()
    assert "llmeval demo" in site.get().text
    store.trace()
    assert "No store yet" not in site.get().text
    assert "No trace matches" in site.get(q="nowhere in it").text


@pytest.mark.parametrize("path", ["/", "/scores", "/traces/00000000000000000000000000000001"])
def test_a_damaged_store_is_said_so(serve, tmp_path, path):
    """A file that is torn in the middle is a page with a way on, not a broken server."""
    with closing(Store(tmp_path / "torn.db")) as torn:
        for _ in range(50):
            torn.rich()
    whole = torn.path.read_bytes()
    torn.path.write_bytes(whole[:4096] + bytes(len(whole) - 4096))
    page = serve(store=torn.path).get(path)
    assert page.status == 503
    assert "This store cannot be read" in page.text


@pytest.mark.parametrize("path", ["/", "/scores", "/versions", "/overview", "/sessions"])
@pytest.mark.parametrize("column", ["start_ns", "tags", "request", "metrics"])
def test_values_of_a_wrong_type_are_no_broken_server(serve, tmp_path, path, column):
    """A page shows what it can, or says that something cannot be read."""
    with closing(Store(tmp_path / "odd.db")) as odd:
        odd.rich()
    with closing(sqlite3.connect(odd.path)) as database, database:
        database.execute(f"UPDATE spans SET {column} = ?", ("{" if column == "metrics" else "odd",))
    answer = serve(store=odd.path).get(path)
    assert answer.status in (200, 503)
    if answer.status == 503:
        assert "holds what cannot be read" in answer.text


def test_a_list_never_looks_longer_than_it_may(store):
    """A rare match costs several short pages, each of which says where the next begins."""
    for number in range(40):
        store.trace(f"number {number}")
    wanted = store_first(store)
    with StoreReader(store.path) as reader:
        query = Query(text="number 0")
        page = reader.read(lambda c: list_page(c, query, seconds=0.0))
        assert page.items == ()
        assert page.next is not None
        assert not page.full
        steps = 0
        while not page.items and page.next is not None:
            after = page.next
            page = reader.read(lambda c: list_page(c, query, after, seconds=0.0))  # noqa: B023
            steps += 1
    assert steps == 39
    assert page.items[0].span_id == wanted


def store_first(store):
    with StoreReader(store.path) as reader:
        return reader.read(
            lambda c: c.execute(
                "SELECT span_id FROM spans WHERE parent_id IS NULL ORDER BY start_ns"
            ).fetchone()
        )[0]


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (Query(), "spans_roots"),
        (Query(span_name="a"), "spans_by_name"),
        (Query(failed=True), "spans_failed"),
        (Query(judged="yes"), "evaluations_judged"),
        (Query(evaluator="a", below=0.5), "evaluations_by_time"),
        (Query(evaluator="a", reason="b"), "not_run_by_time"),
        (Query(order="lowest", order_by="a"), "evaluations_by_value"),
        (Query(feedback="thumbs"), "feedback_by_time"),
    ],
)
def test_a_list_walks_an_index(store, query, index):
    """No list is a scan of a table, nor sorts more than records of the same instant."""
    store.trace()
    sql, given = scan_of(query).candidates(None)
    with StoreReader(store.path) as reader:
        plan = reader.read(
            lambda c: [
                add_feedback_function(c),
                *(row[3] for row in c.execute(f"EXPLAIN QUERY PLAN {sql}", given)),
            ][1:]
        )
    assert index in plan[0]
    assert "USE TEMP B-TREE FOR ORDER BY" not in plan


@pytest.mark.parametrize("what", ["score", "feedback"])
def test_a_filter_by_what_was_said_looks_up_each_trace(store, what):
    """A list whose every candidate reads all scores of a name finds one in the time of a page."""
    store.trace()
    sql, given = scan_of(Query(where=read_filter([f"{what}:a<0.3"]))).candidates(None)
    with StoreReader(store.path) as reader:
        plan = reader.read(
            lambda c: [
                add_functions(c),
                *(row[3] for row in c.execute(f"EXPLAIN QUERY PLAN {sql}", given)),
            ][1:]
        )
    table = {"score": "evaluations", "feedback": "feedback"}[what]
    assert any(step.startswith("SEARCH t USING COVERING INDEX spans_by_trace") for step in plan)
    assert f"SEARCH r USING INDEX {table}_by_span (span_id=?)" in plan


@pytest.mark.parametrize("value", ["abc", "nan", "inf", "0,5"])
def test_a_condition_that_cannot_be_checked_lists_nothing(store, site, value):
    """A bound such as abc is refused: a list of everything would pass for its result."""
    for recall in (0.1, 0.9):
        store.trace(recall=recall)
    page = site.get(evaluator="context_recall_heuristic", op="below", value=value).text
    assert "is no number" in page
    assert "This filter was not understood" in page
    assert "<tr data-id" not in page


def test_what_was_not_attempted_is_never_among_the_worst(store, site):
    """A risk that is labelled abstained stands neither first nor last by its number."""
    for value, label, request in ((0.99, "abstained", "no answer"), (0.6, "high", "a bad one")):
        root = store.span(request=request)
        score = store.score(root, "extraction_risk", value, label=label)
        store.write(spans=[root], evaluations=[score])
    page = site.get(sort="extraction_risk").text
    assert "a bad one" in page
    assert "no answer" not in page
    everything = site.get(col="extraction_risk").text
    row = everything[everything.index("no answer") :]
    assert 'class="score bad"' not in row[: row.index("</tr>")]


def test_validation_is_a_column_where_there_are_extractions(store, site):
    """For chat answers it says little; it can still be chosen."""
    for pair in ({"semantic_validation": "pass"}, {"context_precision": 0.5}):
        root = store.span(request="q")
        scores = [store.score(root, name, value) for name, value in pair.items()]
        store.write(spans=[root], evaluations=scores)
        head = site.get().text.partition("</thead>")[0]
        shown = "semantic_<wbr>validation" in head
        assert shown is ("context_precision" in pair)
    assert "semantic_<wbr>validation" in site.get(evaluator="semantic_validation").text


def heads(page):
    """Return the evaluators that have a column, in their order."""
    head = page.text.partition("</thead>")[0].replace("<wbr>", "")
    return re.findall(r'title="Sort by (\S+), worst first"', head)


def scored(store, count, name="answer", **values):
    """Write spans whose scores are made of their numbers."""
    for number in range(count):
        root = store.span(name, request=f"{name} {number}")
        scores = [store.score(root, of, value(number)) for of, value in values.items()]
        store.write(spans=[root], evaluations=scores)


def test_columns_are_chosen_by_what_varies_the_own_scores_first(store, site):
    """A score that says the same of every span has no column; an app's own one comes first."""
    scored(
        store, 12, groundedness_risk=lambda n: n / 12, context_relevance=lambda n: 0.5,
        retrieval_risk=lambda n: n / 20, politeness=lambda n: n % 2 == 0,
    )  # fmt: skip
    assert heads(site.get()) == ["politeness", "groundedness_risk", "retrieval_risk"]
    chosen = site.get(evaluator="context_relevance")
    assert heads(chosen)[0] == "context_relevance"


def test_columns_are_those_of_the_span_name(store, site):
    """Each span name has the columns that tell its own spans apart."""
    scored(store, 9, "extract", extraction_risk=lambda n: n / 9, agreement_pattern=lambda n: "all")
    scored(store, 9, "chat", groundedness_risk=lambda n: n / 9, tone=lambda n: 0.5 + n / 20)
    assert heads(site.get(span="extract")) == ["extraction_risk"]
    assert heads(site.get(span="chat")) == ["tone", "groundedness_risk"]


def test_a_judge_that_only_refused_keeps_its_column(store, site):
    """What a judge did not do is worth a column, and so is a score where nothing varies."""
    root = store.trace()
    store.write(not_run=[store.refuse(root, "groundedness", "budget")])
    assert heads(site.get())[0] == "groundedness"
    scored(store, 9, "same", context_relevance=lambda n: 0.5)
    assert heads(site.get(span="same")) == ["context_relevance"]


def test_a_judge_without_a_model_has_no_column(store, site):
    """It would say so in every row."""
    root = store.trace()
    store.write(not_run=[store.refuse(root, "groundedness", "no_judge_model")])
    assert "groundedness" not in heads(site.get())


def test_a_typed_id_finds_what_the_store_holds_as_its_hash(store, site, monkeypatch):
    """Somebody who looks for a user knows the plain id; links of the pages hold the hash."""
    monkeypatch.setenv("LLMEVAL_HASH_IDS", "a key that all hosts have")
    hashed = identities(config.from_environment(problems=[])).hashed
    anna = store.span(session_id=hashed("chat-7"), tags={"user_id": hashed("anna")})
    store.write(spans=[anna, store.span(tags={"user_id": hashed("ben")})])
    for query in ({"user": "anna"}, {"user": hashed("anna")}, {"session": "chat-7"}):
        assert shown(site.get(**query)) == ids(anna)
    assert site.get("/session", id="chat-7").status == 200


def test_ids_of_before_the_key_are_found_with_it(store, site, monkeypatch):
    """Links hold the id as the store has it, so that they work on; both forms are spoken of."""
    monkeypatch.setenv("LLMEVAL_HASH_IDS", "a key that all hosts have")
    hashed = identities(config.from_environment(problems=[])).hashed
    plain = store.span(session_id="chat-7", tags={"user_id": "anna"})
    store.write(spans=[plain])
    for query in ({"user": "anna"}, {"session": "chat-7"}):
        assert shown(site.get(**query)) == ids(plain)
    assert site.get("/session", id="chat-7").status == 200
    later = store.span(session_id=hashed("chat-7"), tags={"user_id": hashed("anna")})
    store.write(spans=[later])
    assert set(shown(site.get(user="anna"))) == set(ids(plain, later))
    both = site.get(session="chat-7")
    assert shown(both) == ids(plain)
    assert hashed("chat-7") in both.text


def test_hashed_ids_without_the_key_are_no_empty_list(store, site):
    """Nobody can say that a user has no request, and the page does not."""
    store.write(spans=[store.span(tags={"user_id": f"hmac-{'0' * 32}"})])
    for query in ({"user": "anna"}, {"session": "chat-7"}):
        assert "LLMEVAL_HASH_IDS" in site.get(**query).text
    assert "LLMEVAL_HASH_IDS" not in site.get(user=f"hmac-{'1' * 32}").text
    assert "LLMEVAL_HASH_IDS" not in site.get(q="nothing of that kind").text


def test_a_request_below_another_service_is_listed_and_its_page_shows_it(store, site):
    """Of two requests in one trace, each row leads to its own."""
    spans = [
        store.span(name, trace="ab" * 16, start_ns=at, request=name)
        for name, at in (("first", 2_000), ("second", 1_000))
    ]
    spans = [
        replace(span, parent_id=f"{number:016x}", outside_parent=True)
        for number, span in enumerate(spans, 1)
    ]
    store.write(spans=spans)
    page = site.get()
    assert shown(page) == ids(*spans)
    assert all(f"?span={span.span_id}" in page.text for span in spans)


def test_a_store_of_incomplete_traces_is_not_called_empty(store, site):
    """A span whose parent is missing is no request: the list and its own page say what it is."""
    span = replace(store.span("step", trace="ab" * 16), parent_id="cd" * 8)
    store.write(spans=[span])
    page = site.get()
    assert shown(page) == []
    assert "Incomplete traces only" in page.text
    assert "Incomplete trace:" in site.get(f"/traces/{span.trace_id}").text
