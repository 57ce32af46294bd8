"""Every formula against a second writing of it, straight from the design page."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.model import Chunk, Extraction, Record, Usage


LEXICAL = ["bm25", "lexical", "sparse", "keyword", "fulltext"]
DENSE = ["knn", "vector", "dense", "semantic", "embedding"]
METHODS = [*LEXICAL, *DENSE, "BM25", "Vector", "graph", None]

chunks = st.lists(
    st.builds(
        Chunk,
        content=st.just("text"),
        chunk_id=st.sampled_from(["a", "b", "c", "d", None]),
        score=st.one_of(st.none(), st.floats(0, 1), st.just(0.0)),
        page=st.one_of(st.none(), st.integers(0, 9), st.sampled_from(["", "iv"])),
        retrieval_method=st.sampled_from(METHODS),
    ),
    max_size=25,
).map(tuple)
extractions = st.lists(
    st.builds(
        Extraction,
        value=st.sampled_from(["x", "y", "z", "", None, 0, 7]),
        chunk_number=st.one_of(st.none(), st.integers(0, 30)),
        confidence=st.sampled_from(["HIGH", "MEDIUM", "LOW", "WHO KNOWS", "", None, 0.42, 1, 0]),
    ),
    max_size=20,
).map(tuple)
retrievals = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {},
        optional={
            "limits": st.dictionaries(
                st.sampled_from(["bm25", "knn", "lexical", "DENSE", "graph"]), st.integers(1, 20)
            ),
            "total_before_filter": st.one_of(st.none(), st.integers(0, 80)),
        },
    ),
)


def run(name, record):
    return registry.evaluator(name).evaluate(record)


def side_of(method):
    """Name the side of a method, or the method itself in lower case."""
    if method is None:
        return None
    method = method.lower()
    return "bm25" if method in LEXICAL else "knn" if method in DENSE else method


def cited(found):
    return [e.chunk_number for e in found if e.chunk_number]


@given(chunks)
def test_context_relevance_is_its_formula(found):
    """0.4 I + 0.5 S + 0.1 D, with the three bands."""
    ids = {
        side: {c.chunk_id for c in found if c.chunk_id and side_of(c.retrieval_method) == side}
        for side in ("bm25", "knn")
    }
    overlap = len(ids["bm25"] & ids["knn"]) / max(len(ids["bm25"] | ids["knn"]), 1)
    scores = [c.score for c in found if c.score]
    mean = sum(scores) / len(scores) if scores else 0
    pages = min(len({c.page for c in found if c.page}) / 5, 1)
    expected = 0.4 * overlap + 0.5 * mean + 0.1 * pages
    made = run("context_relevance", Record(retrieved_context=found))
    if found and all(c.score is None for c in found) and not (ids["bm25"] and ids["knn"]):
        assert made is None  # nobody said how relevant they are
        return
    assert made.value == pytest.approx(expected)
    band = "good" if made.value > 0.7 else "acceptable" if made.value >= 0.4 else "investigate"
    assert made.label == band
    assert "unnormalized_scores" not in made.metadata
    assert 0 <= made.value <= 1


@given(extractions)
def test_context_precision_is_its_formula(found):
    """The share of distinct contributing chunks in the top ten."""
    distinct = set(cited(found))
    top = [c for c in distinct if c <= 10]
    expected = round(len(top) / min(10, len(distinct)), 3) if distinct else 0
    made = run("context_precision", Record(extractions=found))
    assert made.value == expected
    assert made.metadata["contributing_chunks"] == len(distinct)
    ranks = cited(found)
    assert made.metadata["avg_rank"] == (round(sum(ranks) / len(ranks), 1) if ranks else 0)


def warnings_of(found, retrieval):
    """Say which of the two warnings hold."""
    retrieval = retrieval or {}
    sides = [side_of(c.retrieval_method) for c in found]
    hit = any(
        sides.count(side_of(method)) >= limit
        for method, limit in retrieval.get("limits", {}).items()
    )
    total = retrieval.get("total_before_filter")
    return hit, total is not None and len(found) / max(total, 1) < 0.5


@given(chunks, extractions, retrievals)
def test_context_recall_is_its_formula(found, taken, retrieval):
    """Contributing over available, times 0.7 or else 0.85."""
    record = Record(retrieved_context=found, extractions=taken, retrieval=retrieval)
    hit, filtering = warnings_of(found, retrieval)
    expected = min(len(set(cited(taken))) / max(len(found), 1), 1)
    expected *= 0.7 if hit else 0.85 if filtering else 1
    made = run("context_recall_heuristic", record)
    assert made.value == round(expected, 3)
    assert dict(made.metadata) == {
        "contributing_count": len(set(cited(taken))),
        "hit_limit_warning": hit,
        "high_filtering_warning": filtering,
    }


@given(chunks, extractions, retrievals)
def test_recall_warning_names_the_graver_flag(found, taken, retrieval):
    """A hit limit first, then heavy filtering, else nothing."""
    record = Record(retrieved_context=found, extractions=taken, retrieval=retrieval)
    hit, filtering = warnings_of(found, retrieval)
    made = run("recall_warning", record)
    if hit or filtering:
        assert made.value == ("HIT_RETRIEVAL_LIMIT" if hit else "HIGH_THRESHOLD_FILTERING")
    else:
        assert made is None


@given(st.sampled_from(["HIGH", "MEDIUM", "LOW", "high", "??", "", None]), extractions)
def test_aggregated_confidence_is_its_formula(word, found):
    """The aggregation's word, or the only extraction's own confidence."""
    words = {"HIGH": 0.90, "MEDIUM": 0.75, "LOW": 0.50}
    expected = words.get((word or "").upper(), 0.70)
    if len(found) == 1 and found[0].confidence:
        own = found[0].confidence
        expected = words.get(own, 0.70) if isinstance(own, str) else own
    made = run("aggregated_confidence", Record(confidence=word, extractions=found))
    assert made.value == expected


@given(extractions)
def test_agreement_is_its_formula(found):
    """The share of the most common truthy value, and a word for the unrounded share."""
    values = [e.value for e in found if e.value]
    share = max(map(values.count, values)) / len(values) if len(values) > 1 else 1
    record = Record(extractions=found)
    made = run("multi_source_agreement", record)
    assert made.value == round(share, 3)
    assert made.metadata["unique_values"] == len(set(values))
    pattern = run("agreement_pattern", record).value
    assert pattern == (
        "unanimous" if share > 0.95 else "majority" if share > 0.7 else "mixed" if share > 0.4
        else "conflicting"
    )  # fmt: skip


uris = st.lists(st.sampled_from(["a", "b", "c", "d", "e", None]), max_size=8)


@given(uris, uris)
def test_document_recall_is_its_formula(expected, found):
    """The share of distinct expected documents that were retrieved."""
    made = run(
        "document_recall",
        Record(
            expected_retrieved_context=tuple(Chunk("x", uri) for uri in expected),
            retrieved_context=tuple(Chunk("x", uri) for uri in found),
        ),
    )
    wanted = set(expected) - {None}
    if wanted and found and not set(found) - {None}:
        assert made.value is None
    elif wanted:
        assert made.value == len(wanted & set(found)) / len(wanted)
    else:
        assert made is None


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_usage_counts_are_passed_on(tokens_in, tokens_out):
    """Tokens are floats with the numbers of the model calls."""
    record = Record(usage=Usage(tokens_in, tokens_out, tokens_in + tokens_out), latency_seconds=0.5)
    assert run("total_input_token_count", record).value == tokens_in
    assert run("total_output_token_count", record).value == tokens_out
    assert run("total_token_count", record).value == tokens_in + tokens_out
    assert run("latency_seconds", record).value == 0.5
    assert type(run("total_token_count", record).value) is float


def test_a_missing_total_is_the_sum_of_its_parts():
    """Not every provider gives the total."""
    assert run("total_token_count", Record(usage=Usage(3, 4))).value == 7


def test_usage_heuristics_run_only_when_asked_for():
    """They would repeat what every span already carries."""
    for name in ("total_token_count", "latency_seconds"):
        assert not registry.evaluator(name).automatic
    assert registry.evaluator("document_recall").automatic


@pytest.mark.parametrize(
    ("scores", "expected", "flagged"),
    [([12.0, 8.0], 1.0, True), ([-1.0], 0.0, True), ([1.5, 0.1], 0.8, True), ([1.0], 1.0, False)],
)
def test_scores_outside_0_to_1_are_clamped_and_said(scores, expected, flagged):
    """BM25 scores as they are cannot push the value above 1."""
    found = tuple(Chunk("x", score=score) for score in scores)
    made = run("context_relevance", Record(retrieved_context=found))
    assert made.value == pytest.approx(0.5 * expected)
    assert made.metadata.get("unnormalized_scores", False) is flagged


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, "high", [], True, object()])
def test_a_score_that_is_no_number_is_no_score(bad):
    """One broken score spoils nothing."""
    made = run("context_relevance", Record(retrieved_context=(Chunk("x", score=bad), Chunk("y", score=0.6))))  # fmt: skip
    assert made.value == pytest.approx(0.3)


def test_chunks_without_an_id_never_intersect():
    """Two unnamed chunks are not the same chunk."""
    found = (Chunk("x", score=0.0, retrieval_method="bm25"), Chunk("x", retrieval_method="knn"))
    assert run("context_relevance", Record(retrieved_context=found)).value == 0


@pytest.mark.parametrize(
    "bad", [True, -3, 0, 2.5, math.nan, math.inf, "two", "", [], None, 10**400]
)
def test_a_chunk_number_that_is_none_contributes_nothing(bad):
    """Only whole numbers from 1 on are ranks."""
    record = Record(extractions=(Extraction("v", bad),), retrieved_context=(Chunk("x"),))
    assert run("context_precision", record).metadata["contributing_chunks"] == 0
    assert run("context_recall_heuristic", record).value == 0


@pytest.mark.parametrize("good", [2, 2.0, "2", " 2 "], ids=repr)
def test_a_chunk_number_in_another_type_is_read(good):
    """Models write numbers as text."""
    record = Record(extractions=(Extraction("v", good),), retrieved_context=(Chunk("x"),) * 4)
    assert run("context_recall_heuristic", record).value == 0.25


def test_citing_chunks_that_are_not_there_cannot_lift_recall_above_1():
    """Recall is a share, also where the model invents chunk numbers."""
    taken = tuple(Extraction("v", number) for number in range(1, 9))
    record = Record(extractions=taken, retrieved_context=(Chunk("x"),))
    assert run("context_recall_heuristic", record).value == 1


@pytest.mark.parametrize("limit", [0, -1, math.nan, None, "many", True, []])
def test_a_limit_that_is_none_is_never_hit(limit):
    """A limit of zero would otherwise be hit by every request."""
    record = Record(
        extractions=(), retrieved_context=(Chunk("x", retrieval_method="bm25"),),
        retrieval={"limits": {"bm25": limit}},
    )  # fmt: skip
    assert run("recall_warning", record) is None


def test_the_total_before_filtering_counts_only_where_it_is_known():
    """No total, no penalty."""
    record = Record(extractions=(Extraction("v", 1),), retrieved_context=(Chunk("x"),))
    assert run("context_recall_heuristic", record).value == 1
    with_total = Record(
        extractions=record.extractions, retrieved_context=record.retrieved_context,
        retrieval={"total_before_filter": 3},
    )  # fmt: skip
    assert run("context_recall_heuristic", with_total).value == 0.85


def test_empty_lists_give_the_formulas_value_and_absent_ones_nothing():
    """Present and empty is not the same as absent."""
    empty = Record(extractions=(), retrieved_context=())
    expected = {
        "context_relevance": 0.0,
        "context_precision": 0.0,
        "context_recall_heuristic": 0.0,
        "multi_source_agreement": 1.0,
        "agreement_pattern": "unanimous",
        "aggregated_confidence": 0.7,
    }
    for name, value in expected.items():
        assert run(name, empty).value == value
        if name != "aggregated_confidence":
            assert run(name, Record()) is None


def test_agreement_attaches_by_itself_from_two_extractions_on():
    """One source cannot disagree with itself, but may be asked for by name."""
    for name in ("multi_source_agreement", "agreement_pattern"):
        applies = registry.evaluator(name).applies
        assert not applies(Record(extractions=(Extraction("v"),)))
        assert applies(Record(extractions=(Extraction("v"), Extraction("w"))))


@pytest.mark.parametrize(
    ("values", "share"), [(([1], [1]), 1.0), (({"a": 1}, {"a": 1}), 1.0), (([1], [2]), 0.5)]
)
def test_values_that_cannot_be_hashed_agree_by_their_content(values, share):
    """Lists and mappings are values too."""
    record = Record(extractions=tuple(map(Extraction, values)))
    assert run("multi_source_agreement", record).value == share


@pytest.mark.parametrize(
    ("form", "value", "valid"),
    [
        (r"\d{5}", "12345", True),
        (r"\d{5}", "1234", False),
        (r"\d{5}", 54321, True),
        ("date", "3 June 2015", True),
        ("date", "June", False),
        ("date", "2015-02-30", False),
        ("YYYY-MM-DD", "2015-06-03", True),
        ("YYYY-MM-DD", "soon", False),
        ("number", "1,234.5", True),
        ("number", 7, True),
        ("number", "seven dwarfs", False),
        ("money", "USD 5.00", True),
        ("money", "5 kg", False),
        (str.isupper, "ABC", True),
        (str.isupper, "abc", False),
        (float, "x", False),
        (float, "0", True),
        (r"\d", ["1", "2"], True),
        (r"\d", ["1", "x"], False),
        ("iban", "anything", None),
        ("(", "anything", None),
        (r"\d", None, None),
        (7, "anything", None),
    ],
)
def test_a_value_in_the_wrong_format_caps_confidence(form, value, valid):
    """A wrong format means at most 0.50; a format that says nothing changes nothing."""
    record = Record(confidence="HIGH", value=value, field_config={"format": form})
    made = run("aggregated_confidence", record)
    assert made.metadata.get("format_valid") is valid
    assert made.value == (0.5 if valid is False else 0.9)


@pytest.mark.parametrize(
    ("own", "expected"),
    [(0.42, 0.42), (85, 1.0), (-1, 0.0), ("0.3", 0.3), ("low", 0.5), ("?", 0.7), (math.nan, 0.7)],
)
def test_the_only_extractions_confidence_wins_and_stays_in_range(own, expected):
    """One source is as sure as it says."""
    record = Record(confidence="HIGH", extractions=(Extraction("v", confidence=own),))
    assert run("aggregated_confidence", record).value == expected


@pytest.mark.parametrize("said", [True, "33%", "?", ""])
def test_a_confidence_that_is_no_number_and_no_word_counts_the_same_online_and_offline(said):
    """A row of a data set with it is as good a row as the record that an app makes."""
    online = run("aggregated_confidence", Record(confidence=said))
    (row,) = llmeval.evaluate(
        [{"request": "q", "confidence": said, "extractions": []}],
        evaluators=["aggregated_confidence"],
    ).rows
    assert row.evaluations["aggregated_confidence"].value == online.value == 0.7
