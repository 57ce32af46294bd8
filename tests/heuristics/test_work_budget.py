"""One bad record costs only itself: no input of a megabyte takes a built-in heuristic long."""

import random
import string

import pytest
from counted import calls_of

from llmeval_sdk import registry
from llmeval_sdk.evaluation.scoring import run_heuristic
from llmeval_sdk.heuristics.semantic_validation import semantic_validation
from llmeval_sdk.model import Chunk, Extraction, Record
from llmeval_sdk.text import budget as _budget
from llmeval_sdk.text.budget import TooLargeError, WorkBudget, limit_processor_time


MEGABYTE = 1 << 20
MOST = 800_000
"""Calls that a heuristic may make for one record; those that make most make half as many."""
BUILT_IN = [
    found
    for name in registry.heuristics()
    if (found := registry.evaluator(name)).kind == "heuristic"
]


RNG = random.Random(1)


def letters(length):
    return "".join(RNG.choices(string.ascii_lowercase, k=length))


def filled(piece):
    return piece * (MEGABYTE // len(piece.encode()))


def addresses(count):
    return [f"https://example.com/{letters(12)}/{letters(20)}" for _ in range(count)]


def texts():
    return {
        "one word": letters(MEGABYTE), "words": filled("lorem ipsum dolor sit amet "),
        "numbers": filled("1,234.50 usd "), "dates": filled("12 March 2021, 1/2/2003 "),
        "number words": filled("one hundred and "), "initials": filled("a."), "ideographs": filled("漢字"),
        "marks": filled("e\u0301\u0327"), "ligatures": filled("\ufdfa"), "thai": filled("ภาษาไทย"),
        "brackets": filled("((["), "spaces": filled(" "), "lines": filled("\n"), "quotes": filled("1'"),
        "sentences": filled("It is. "), "surrogates": filled("\U0001f600"), "nulls": filled("\0"),
        "commas": filled("1,"), "addresses": "\n".join(addresses(18_000)), "almost": filled("aaaab "),
    }  # fmt: skip


def answer(text):
    return Record(
        request=text[:4_000], response=text, value=text, retrieved_context=(Chunk(text, "d"),)
    )


def value_of(text):
    return Record(
        request="q", value=text[:130_000], extractions=(Extraction(text, 1, None),),
        retrieved_context=(Chunk(text[::-1], "d"),),
    )  # fmt: skip


def shapes(texts):
    words = "".join(f"{letters(7)} " for _ in range(9_000))
    nested = "x"
    for _ in range(50):
        nested = [nested, nested]
    urls = addresses(1_000)
    yield "nested", Record(value=nested, retrieved_context=(Chunk(words),))
    yield (
        "500 against addresses",
        Record(
            extractions=tuple(Extraction(url, 1) for url in urls[:500]),
            retrieved_context=(Chunk(" ".join(urls)[:32_000]),),
        ),
    )
    yield (
        "500 words against addresses",
        Record(
            extractions=tuple(Extraction(letters(30), 1) for n in range(500)),
            retrieved_context=(Chunk(" ".join(urls)[:32_000]),),
        ),
    )
    yield (
        "10,000 extractions",
        Record(
            extractions=tuple(Extraction(letters(9), n % 7, 0.5) for n in range(10_000)),
            retrieved_context=(Chunk(words),) * 7,
        ),
    )
    yield (
        "10,000 chunks",
        Record(
            request="q",
            response="r",
            retrieved_context=tuple(Chunk(letters(90)) for n in range(10_000)),
        ),
    )
    yield (
        "500 names of alike words",
        Record(
            extractions=tuple(Extraction("aaaa aaab aaaa aaac aabb", 1) for _ in range(500)),
            retrieved_context=(Chunk("aaaa aaax " * 15_000),),
        ),
    )
    yield (
        "evidence of its own for each",
        Record(
            extractions=tuple(
                Extraction(letters(12), None, None, words[n : n + 2_000]) for n in range(500)
            )
        ),
    )
    yield (
        "one-word values",
        Record(
            value=[letters(60_000) for n in range(4)],
            retrieved_context=(Chunk(letters(60_000)),),
        ),
    )
    for name in ("dates", "words", "numbers", "ligatures"):
        yield f"values nearly in their evidence: {name}", nearly_there(texts[name])


def nearly_there(text, count=100, length=525):
    """105,000 characters: values of hundreds of words, each of which nearly stands in its evidence."""
    return Record(
        extractions=tuple(
            Extraction(f"{text[31 * n : 31 * n + length]}q", evidence=text[:length])
            for n in range(count)
        )
    )


@pytest.fixture(scope="module")
def records():
    """What may take long, by name: megabytes, made where these tests run."""
    made = texts()
    return {
        **{f"answer: {name}": answer(text) for name, text in made.items()},
        **{f"value: {name}": value_of(text) for name, text in made.items()},
        **dict(shapes(made)),
    }


@pytest.mark.parametrize("heuristic", BUILT_IN, ids=lambda each: each.name)
def test_no_record_holds_a_built_in_heuristic_up(heuristic, records):
    """It has a value, none, or the error ``too_large``; and after bounded work."""
    for name, record in records.items():
        made = []

        def score(record=record, made=made):
            made.append(run_heuristic(heuristic, record))

        assert calls_of(score) < MOST, name
        assert made[0].error is None or made[0].error.type == "too_large", name


def test_a_record_as_apps_make_them_stays_within_the_budget():
    """Twenty chunks of 2,000 characters and an extraction from each, of every kind."""
    text = "The rent is EUR 1,250.00 a month from 1 March 2021, payable by Harbour Trading Ltd. "
    chunks = tuple(Chunk(f"{text * 24} page {n}", f"d{n}") for n in range(20))
    values = ("EUR 1,250", "2021-03-01", "Harbour Tradng Ltd", "twelve months", "no such value")
    made = run_heuristic(
        semantic_validation,
        Record(
            extractions=tuple(Extraction(values[n % 5], n + 1) for n in range(20)),
            retrieved_context=chunks,
        ),
    )
    assert made.error is None
    assert made.metadata["checked"] == 20


def test_the_same_record_always_has_the_same_outcome(records):
    """Work is counted by size, so no clock and no neighbour decides."""
    for record in (records["500 words against addresses"], records["one-word values"]):
        outcomes = {repr(run_heuristic(semantic_validation, record).error) for _ in range(3)}
        assert len(outcomes) == 1
        assert "too_large" in outcomes.pop()


def test_a_worker_also_limits_its_own_processor_time():
    """On a machine that is much slower than the count expects, the thread's clock ends it."""
    limit_processor_time(0.005)
    try:
        budget = WorkBudget()
        with pytest.raises(TooLargeError, match="processor time"):
            for _ in range(10_000_000):
                budget.spend(0)
    finally:
        limit_processor_time(None)
    WorkBudget().spend(_budget.UNITS)


def test_what_is_too_large_is_an_error_with_a_reason_and_no_value(records):
    """It never passes for a failed or a good value."""
    made = run_heuristic(semantic_validation, records["value: words"])
    assert made.value is None
    assert made.error.type == "too_large"
    assert "characters" in made.error.message
