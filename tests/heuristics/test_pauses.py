"""A score that is made beside an app pauses often, however long the record is."""

import gc
import random
import sys

import pytest

from llmeval_sdk import registry
from llmeval_sdk.evaluation.scoring import run_heuristic
from llmeval_sdk.model import Chunk, Extraction, Record, Step
from llmeval_sdk.process.pieces import pause_with
from llmeval_sdk.text.budget import WorkBudget


CALLS = 10_000
"""Calls of functions between two pauses: about a millisecond. It was all of a score, 1,000,000."""
BUILT_IN = [
    evaluator
    for name in registry.heuristics()
    if (evaluator := registry.evaluator(name)).kind == "heuristic"
]
PHRASES = (
    "The rent is EUR 1,250.00 ", "from 12 March 2021, ", "payable by Acme Ltd. ", "yes or no ",
    "Total: 12.00\n", "Invoice number AB-123456 ", "[1] a heating, ", "Straße und é ", "東京 ", "\n",
)  # fmt: skip
CONFIG = {
    name: {"name": name, "description": description}
    for name, description in {
        "invoice_number": "number of the invoice", "total": "total amount", "ref": "reference",
        "due_date": "due date", "seller": "name of the seller",
    }.items()
}  # fmt: skip
VALUE = {"invoice_number": "AB-123456", "total": "12.00", "seller": "Acme Ltd", "ref": None}
PAGES = {
    "tabs": "\t",
    "spaces": " ",
    "figures": "1,2 ",
    "words": "aaab ",
    "sums": "twenty hundred and ",
}


def prose(length, seed):
    chance = random.Random(seed)
    return "".join(chance.choice(PHRASES) for _ in range(length // 15))


def pages():
    """Chunks by name: those of an ordinary app, and those that somebody fills with one thing."""
    yield "prose", tuple(Chunk(prose(4_000, n), f"d{n}") for n in range(12))
    for name, piece in PAGES.items():
        yield name, tuple(Chunk(f"{n}{piece * 10_000}"[:10_000], "d") for n in range(4))


def records(chunks):
    text = "\n".join(chunk.content for chunk in chunks)
    yield Record(request="What is the rent?", response=text[:9_000], retrieved_context=chunks)
    yield Record(request="q", value=VALUE, field_config=CONFIG, retrieved_context=chunks)
    yield Record(request="q", value=text[:30_000], retrieved_context=(Chunk(text[:90_000], "d"),))
    values = ("EUR 1,250.00", "Acme Ltt", "12 March 2021", "no such value", "true")
    extractions = tuple(Extraction(value, 1 + n % 4) for n, value in enumerate(4 * values))
    yield Record(extractions=extractions, retrieved_context=chunks)
    steps = [Step("user", "Pay the rent of the month, and write to the landlord.")]
    for number, chunk in enumerate(chunks):
        arguments = {"query": chunk.content[:200], "amount": 1_250.5 + number}
        steps.append(Step("tool", None, "pay_rent", arguments, chunk.content))
    steps.append(Step("assistant", text[:9_000]))
    yield Record(request=steps[0].content, response=steps[-1].content, steps=tuple(steps))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("chunks", [pytest.param(chunks, id=name) for name, chunks in pages()])
@pytest.mark.parametrize("heuristic", BUILT_IN, ids=lambda each: each.name)
def test_a_score_pauses_after_a_millisecond_of_work(heuristic, chunks):
    """Counted in calls, so that no clock decides."""
    for record in records(chunks):
        run_heuristic(heuristic, record)  # loads what it needs
        calls = most = 0

        def count(*_):
            nonlocal calls, most
            calls += 1
            most = max(most, calls)

        def begin_again():
            nonlocal calls
            calls = 0

        pause_with(begin_again)
        gc.disable()
        sys.setprofile(count)
        try:
            run_heuristic(heuristic, record)
        finally:
            sys.setprofile(None)
            gc.enable()
            pause_with(None)
        assert most < CALLS


def test_counted_work_is_a_moment_to_pause():
    """`WorkBudget.spend` is called throughout a score."""
    pauses = []
    pause_with(lambda: pauses.append(1))
    try:
        for _ in range(3):
            WorkBudget().spend(1)
    finally:
        pause_with(None)
    WorkBudget().spend(1)
    assert len(pauses) == 3
