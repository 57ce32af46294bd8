"""Span names that differ get weights of their own, and processes of a host share what is learned."""

import random

from llmeval_sdk import registry
from llmeval_sdk.plugins.learning import background
from llmeval_sdk.plugins.learning.background import Learning, advanced_groups
from llmeval_sdk.plugins.learning.fits import MAX_GROUPS, Source
from llmeval_sdk.plugins.learning.fitting import risk_of
from llmeval_sdk.plugins.learning.outcomes import TABLES, Entry, Outcomes
from llmeval_sdk.store.state import StateFile


PART = "groundedness_risk/en"
JUDGE = Source("groundedness", "1", "gpt-4o")
SIGNS = {"search": 2.5, "chat": -2.5}
"""What one and the same feature says about the records of each span name."""


def entries(number, *, first=0, features="f", width=1, name=None):
    draw = random.Random(first)
    for place in range(first, first + number):
        span_name = name or draw.choice(sorted(SIGNS))
        vector = tuple(draw.gauss(0, 1) for _ in range(width))
        bad = float(draw.random() < risk_of(SIGNS.get(span_name, 2.5) * vector[0]))
        yield Entry(PART, features, JUDGE, f"{place:016x}", span_name, bad, 1.0, 0.0, vector)


def groups_after(outcomes, batches):
    groups = {}
    for batch in batches:
        outcomes.add(batch)
        slices = advanced_groups(outcomes, PART, ("f", 1), groups, 1.0)
        while True:
            try:
                next(slices)
            except StopIteration as end:
                groups = end.value
                break
    return groups


def test_span_names_that_differ_get_weights_of_their_own(tmp_path):
    """What is a good sign in one of them may be a bad one in another."""
    batches = [list(entries(50, first=start)) for start in range(0, 600, 50)]
    groups = groups_after(Outcomes(StateFile(tmp_path / "o", TABLES)), batches)
    own = {name: groups[name].in_use.weights.weights[0] for name in SIGNS}
    assert own["search"] > 0.3
    assert own["chat"] < -0.3


def test_one_span_name_alone_needs_none(tmp_path):
    """Then the weights over all are its own."""
    batches = [list(entries(50, first=start, name="search")) for start in range(0, 300, 50)]
    groups = groups_after(Outcomes(StateFile(tmp_path / "o", TABLES)), batches)
    assert list(groups) == [""]
    assert groups[""].in_use is not None


def test_only_so_many_span_names_have_weights_of_their_own(tmp_path):
    """An app that names its spans by their content cannot make the file grow."""
    batches = [list(entries(100, first=100 * n, name=f"span {n}")) for n in range(MAX_GROUPS + 5)]
    groups = groups_after(Outcomes(StateFile(tmp_path / "o", TABLES)), batches)
    assert len(groups) <= MAX_GROUPS + 1


def test_one_process_fits_and_the_others_read(tmp_path, monkeypatch):
    """Another process has the weights as soon as it looks at the file."""
    monkeypatch.setattr(background, "SYNC_SECONDS", 0.0)
    fitting, reading = Learning(tmp_path / "llmeval.db"), Learning(tmp_path / "llmeval.db")
    for learning in (fitting, reading):
        learning.taught(registry.evaluator("groundedness_risk"))
    (score,) = fitting.scores
    shape = {"features": score.features, "width": len(score.names), "name": "answer"}
    for start in (0, 100):
        fitting._collector.outcomes.extend(entries(100, first=start, **shape))
        for learning in (fitting, reading):
            while learning.study():
                pass
    assert fitting._in_force[PART][""].version == reading._in_force[PART][""].version
