"""Free scores against an expected answer: their definitions, their bounds, and when they run."""

import json

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.standing import every_heuristic
from llmeval_sdk.heuristics.expected.json_schema import of_schema
from llmeval_sdk.model import Record


# Printed by rouge_scorer.RougeScorer(["rougeL"]) of the package rouge-score 0.1.2.
ROUGE = [
    ("the cat sat on the mat", "the cat is on the mat", 0.8333333333),
    ("EUR 1,250.00 per month", "The rent is EUR 1,250.00 a month, due on the first.", 0.5263157895),
    ("yes", "no", 0.0),
    ("", "", 0.0),
    ("Slate and tile.", "Slate", 0.5),
    ("a b c d e f g", "g f e d c b a", 0.1428571429),
    (
        "The old town of Ghent has a roof garden, open from nine.",
        "Ghent's old town has a roof garden; it opens at nine",
        0.5833333333,
    ),
    ("one two three four", "one three two four five", 0.6666666667),
]


def value(name, answer, expected):
    record = Record(response=answer, expected_response=expected)
    return registry.evaluator(name).evaluate(record).value


@pytest.mark.parametrize(("answer", "expected", "score"), ROUGE)
def test_rouge_l_is_that_of_the_reference_package(answer, expected, score):
    """It agrees to ten places with what rouge-score prints."""
    assert value("rouge_l", answer, expected) == pytest.approx(score, abs=1e-9)


@pytest.mark.parametrize(
    ("answer", "expected", "is_same", "f1"),
    [
        ("The Slate roof!", "slate roof", True, 1.0),
        ("a slate roof", "slate tiles", False, 0.5),
        ("", "", True, 1.0),
        ("the", "", True, 1.0),
        ("slate", "", False, 0.0),
        ("slate slate slate", "slate", False, 0.5),
    ],
)
def test_words_are_compared_as_the_squad_evaluation_does(answer, expected, is_same, f1):
    """Case, punctuation, articles and spaces do not count; words count as often as they stand."""
    assert value("exact_match", answer, expected) is is_same
    assert value("token_f1", answer, expected) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("answer", "expected", "is_there"),
    [
        ("It is made of slate tiles.", "Slate", True),
        ("Room 17", "1", False),
        ("anything", "...", False),
        ("It opens at nine", "opens at nine", True),
    ],
)
def test_contains_looks_for_whole_words(answer, expected, is_there):
    """A figure does not stand in a longer one, and an answer without words in none."""
    assert value("contains", answer, expected) is is_there


def test_edit_similarity_counts_letters():
    """One of six letters differs; nothing in common is 0."""
    assert value("edit_similarity", "Peters", "Petars") == pytest.approx(5 / 6)
    assert value("edit_similarity", "abc", "xyz") == 0.0
    assert value("edit_similarity", "", "") == 1.0


def test_an_extracted_value_is_an_answer():
    """Where there is no response, the value is compared; a number as text."""
    record = Record(value=1250, expected_response="1250")
    assert registry.evaluator("exact_match").evaluate(record).value is True


def test_they_run_only_where_they_are_named():
    """A data set with answers gets no ten columns by itself, and live traffic none."""
    row = {"request": "q", "response": "slate", "expected_response": "slate"}
    assert not registry.expected().keys() & llmeval.evaluate([row]).counts.keys()
    settings = llmeval.config.from_environment(problems=[])
    standing = {each.name for each in every_heuristic(settings)}
    assert not registry.expected().keys() & standing
    named = llmeval.evaluate([row], evaluators=["exact_match", "token_f1"])
    assert named.metrics["exact_match/average"] == 1.0


def test_long_texts_have_no_value_and_a_reason():
    """Nobody waits for the product of two lengths."""
    record = Record(response="a" * 20_001, expected_response="b")
    for name in ("rouge_l", "edit_similarity"):
        made = registry.evaluator(name).evaluate(record)
        assert made.value is None
        assert "longer than 20,000 characters" in made.explanation


def test_a_regex_is_an_evaluator_with_a_name_of_its_own():
    """Several patterns can be asked for at once; each is a column."""
    row = {"request": "q", "response": "Built in 1904"}
    found = llmeval.evaluate([row], evaluators=[r"regex:year=\b\d{4}\b", "regex:slate"])
    assert found.metrics["year/average"] == 1.0
    assert found.metrics["regex/average"] == 0.0


def test_a_pattern_that_takes_for_ever_is_given_up():
    """A stranger's text stops no worker: the search has a deadline, and the value is missing."""
    slow = registry.evaluator("regex:^(a|a|aa)+$")
    made = slow.evaluate(Record(response="a" * 60 + "b"))
    assert made.value is None or made.value is False
    schema = of_schema({"type": "string", "pattern": "^(a|a|aa)+$"})
    made = schema.evaluate(Record(response=json.dumps("a" * 60 + "b")))
    assert made.value in (None, False)


@pytest.mark.parametrize(
    ("answer", "is_valid", "why"),
    [
        ('{"total": 12.5, "currency": "EUR"}', True, None),
        ('```json\n{"total": 1, "currency": "USD"}\n```', True, None),
        ('{"total": "12"}', False, "$.total: '12' is not of type 'number'"),
        ('{"total": 1, "currency": "euro"}', False, "$.currency: 'euro' does not match"),
        ("twelve", False, "no JSON: "),
        ("[" * 50_000, False, "no JSON: "),
    ],
)
def test_json_schema_says_where_the_first_error_is(answer, is_valid, why, tmp_path):
    """The file is named on the command line; a fence around the answer does not count."""
    file = tmp_path / "answer.json"
    file.write_text(
        json.dumps(
            {
                "type": "object",
                "properties": {
                    "total": {"type": "number"},
                    "currency": {"type": "string", "pattern": "^[A-Z]{3}$"},
                },
            }
        )
    )
    made = registry.evaluator(f"json_schema:{file}").evaluate(Record(response=answer))
    assert made.value is is_valid
    assert made.explanation is None if why is None else made.explanation.startswith(why)


def test_a_schema_is_checked_in_bounded_time():
    """Thousands of items that must differ, or of strings that match slowly, stop no worker."""
    items = [{"n": number} for number in range(6_000)]
    unique = of_schema({"type": "array", "uniqueItems": True})
    assert unique.evaluate(Record(response=json.dumps(items))).value is True
    assert unique.evaluate(Record(response=json.dumps([*items, {"n": 1}]))).value is False
    assert unique.evaluate(Record(response="[1, 1.0]")).value is False
    assert unique.evaluate(Record(response="[1, true]")).value is True
    slow = of_schema({"items": {"pattern": "^(a|a|aa)+$"}})
    made = slow.evaluate(Record(response=json.dumps(["a" * 40 + "b"] * 2_000)))
    assert made.value in (None, False)


def test_what_was_not_checked_passes_no_gate():
    """An answer that is too long to look at is a failure of the evaluator, not a row left out."""
    rows = [{"request": "q", "response": "x" * length} for length in (1, 200_000)]
    report = llmeval.evaluate(rows, evaluators=["regex:x"])
    assert report.metrics == {"regex/average": 1.0, "no_answer/percentage": 0.0}
    assert report.counts["regex"]["failed"] == 1
    assert report.below({"regex/average": 0.5}) == {"regex/average": None}


def test_patterns_without_a_deadline_are_refused():
    """The library's own search of names beside patternProperties could take for ever."""
    schema = {"patternProperties": {"^(a|a)+$": {}}, "additionalProperties": False}
    with pytest.raises(ConfigurationError, match="cannot stand beside additionalProperties"):
        of_schema(schema)


def test_a_schema_fetches_nothing():
    """A reference to an address is not followed: there is no value, and the reason says which."""
    made = of_schema({"$ref": "http://127.0.0.1:9/schema.json"}).evaluate(Record(response="{}"))
    assert made.value is None
    assert "is not followed" in made.explanation


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("regex:", "regex needs a pattern"),
        ("regex:(", "is no pattern"),
        ("regex", "regex needs a pattern"),
        ("json_schema", "json_schema needs a file"),
        ("json_schema:no-such-file.json", "cannot be read"),
        ("precision_at_k", "such as precision_at_k:5"),
        ("recall_at_k:0", "from 1 to 1,000"),
        ("ndcg_at_k:many", "from 1 to 1,000"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(name, words):
    """A person is watching when an evaluator is named."""
    with pytest.raises(ConfigurationError, match=words.replace("(", r"\(")):
        llmeval.evaluate([{"request": "q"}], evaluators=[name])
