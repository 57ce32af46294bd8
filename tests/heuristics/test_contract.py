"""What every heuristic of the registry promises, whatever the Record holds."""

import json
import math

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from llmeval_sdk import registry
from llmeval_sdk.evaluation.scoring import Heuristics, run_heuristic
from llmeval_sdk.model import Chunk, Evaluation, Extraction, Record, Step, Usage
from llmeval_sdk.model.protocols import Heuristic


NAMES = sorted(registry.heuristics())


class Raises:
    """Everything that could be asked of it raises."""

    def _no(self, *_):
        raise RuntimeError("no")

    __bool__ = __float__ = __int__ = __len__ = __iter__ = __str__ = __repr__ = __eq__ = _no
    __hash__ = _no


class Ambiguous:
    """As an array, neither true nor false nor hashable."""

    __hash__ = None

    def __bool__(self):
        raise ValueError("ambiguous")


odd = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20),
    st.sampled_from(["bm25", "KNN", "12 March 2021", "EUR 5", "NaN", "1" * 400, 10**400, -(10**30)]),
    st.builds(Raises), st.builds(Ambiguous), st.just([]), st.just({}), st.just(b"x"),
    st.lists(st.integers(), max_size=3), st.dictionaries(st.text(max_size=3), st.floats(), max_size=2),
)  # fmt: skip
chunks = st.lists(
    st.builds(Chunk, content=odd, doc_uri=odd, chunk_id=odd, score=odd, page=odd, retrieval_method=odd),
    max_size=4,
).map(tuple)  # fmt: skip
records = st.builds(
    Record,
    request=st.one_of(st.none(), st.text(max_size=30)),
    response=st.one_of(st.none(), st.text(max_size=30)),
    retrieved_context=st.one_of(st.none(), chunks),
    expected_retrieved_context=st.one_of(st.none(), chunks),
    extractions=st.one_of(
        st.none(),
        st.lists(st.builds(Extraction, odd, odd, odd, odd), max_size=4).map(tuple),
    ),
    value=odd,
    confidence=odd,
    field_config=st.one_of(odd, st.fixed_dictionaries({"format": odd})),
    retrieval=st.one_of(
        odd,
        st.fixed_dictionaries(
            {
                "limits": st.one_of(odd, st.dictionaries(st.sampled_from(["bm25", 3, None]), odd)),
                "total_before_filter": odd,
            }
        ),
    ),
    usage=st.one_of(st.none(), st.builds(Usage, odd, odd, odd)),
    latency_seconds=odd,
)


def checked(name, made):
    """Check one outcome, and return it as JSON."""
    if made is None:
        return None
    assert type(made) is Evaluation
    assert made.name == name
    assert made.evaluator_kind == "heuristic"
    assert made.value is None or type(made.value) in (float, bool, str)
    assert made.error is None
    assert type(made.value) is not float or math.isfinite(made.value)
    return json.dumps(
        [made.value, made.label, made.explanation, dict(made.metadata)], allow_nan=False
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_heuristic_says_what_it_is(name):
    """Its name is the registry's, its needs are fields of Record."""
    heuristic = registry.evaluator(name)
    assert isinstance(heuristic, Heuristic)
    assert heuristic.name == name
    assert heuristic.kind == "heuristic"
    fields = Record.__dataclass_fields__
    needed = {field.partition(".")[0] for need in heuristic.needs for field in need.split("|")}
    assert needed <= set(fields)


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_record_is_no_reason_to_fail(name):
    """Nothing there gives nothing, or what the formula says of nothing."""
    made = registry.evaluator(name).evaluate(Record())
    value = made.value if isinstance(made, Evaluation) else made
    allowed = {"aggregated_confidence": 0.7, "semantic_validation": "skipped"}
    assert value == allowed.get(name)


@settings(max_examples=100)
@given(record=records)
def test_no_record_makes_a_heuristic_raise(record):
    """Odd values cost a heuristic its input, never its life; the outcome is plain JSON."""
    for name in NAMES:
        note(name)
        made = registry.evaluator(name).evaluate(record)
        first = checked(name, made)
        assert checked(name, registry.evaluator(name).evaluate(record)) == first


def test_an_outcome_has_the_version_of_its_heuristic():
    """So thresholds and what was learned can be told from those of former values."""
    record = Record(
        request="What is the total?", response="The total is 9.00 EUR.", value="9.00",
        retrieved_context=(Chunk("Total: 9.00 EUR"),), field_config={"name": "total"},
        extractions=(Extraction("9.00", 1), Extraction("8.00", 1)),
    )  # fmt: skip
    for name in NAMES:
        heuristic = registry.evaluator(name)
        at_once = Heuristics([heuristic], asked_for=[name]).run(record)
        for made in (run_heuristic(heuristic, record), *at_once):
            if made.value is not None:
                assert (name, made.evaluator_version) == (name, heuristic.version)


@pytest.mark.parametrize("name", NAMES)
def test_an_ordinary_record_gives_a_plain_outcome(name):
    """The same Record twice gives the same JSON."""
    found = tuple(
        Chunk(f"Passage {n} was signed on 3 June 2015.", f"doc{n}", f"c{n // 2}", 0.9 - n / 10, n,
              ("bm25", "knn")[n % 2])
        for n in range(5)
    )  # fmt: skip
    record = Record(
        request="When was it signed?", response="It was signed on 3 June 2015.",
        retrieved_context=found, expected_retrieved_context=found[:2], value="2015-06-03",
        extractions=(Extraction("2015-06-03", 1, "HIGH"), Extraction("3 June 2015", 2, "LOW")),
        retrieval={"limits": {"bm25": 2}}, usage=Usage(1, 2, 3), latency_seconds=0.1,
        steps=(Step("user", "When?", start_ns=1, end_ns=1), Step("tool", None, "search", {"query": "signed"}, "in 2015")),
        expected_trajectory=(Step("tool", None, "search", {"query": "signed"}),),
        tools=({"name": "search", "parameters": {"properties": {"query": {"type": "string"}}}},),
    )  # fmt: skip
    heuristic = registry.evaluator(name)
    made = heuristic.evaluate(record)
    assert made is not None
    assert checked(name, made) == checked(name, heuristic.evaluate(record)) is not None


def test_metadata_heuristics_run_inline_and_text_analysis_does_not():
    """Only what stays in microseconds may run on the caller's thread."""
    for name in NAMES:
        heuristic = registry.evaluator(name)
        reads_text = name == "semantic_validation" or name.endswith("_risk")
        reads_steps = any(need.split("|")[0] == "steps" for need in heuristic.needs)
        assert heuristic.inline is not (reads_text or reads_steps)


def test_a_format_that_cannot_be_compared_costs_no_score():
    """What an app gives as a field's format may be any object."""
    record = Record(
        retrieved_context=(Chunk("Signed on 3 June 2015."),), field_config={"format": Raises()}
    )
    made = registry.evaluator("abstention_risk").evaluate(record)
    assert made is None or made.error is None
