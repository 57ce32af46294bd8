"""Names of evaluators become labels that Datadog takes."""

import re

from hypothesis import given
from hypothesis import strategies as st

from llmeval_sdk.plugins.datadog.exporter import Labels, label_of
from llmeval_sdk.process import shield


RULE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,199}")


@given(st.text(min_size=1, max_size=400))
def test_every_name_becomes_a_label_that_datadog_takes(name):
    """A letter first, then letters, digits and underscores, at most 200 of them."""
    assert RULE.fullmatch(label_of(name))


@given(st.from_regex(RULE, fullmatch=True))
def test_a_good_name_stays_as_it_is(name):
    """Names of built-in evaluators are labels."""
    assert label_of(name) == name


def test_a_metric_of_ragas_own_is_not_datadogs_of_that_name():
    """Ragas' mean precision@k and Datadog's share of useful contexts are two evaluations."""
    assert label_of("ragas:context_precision") == "ragas__context_precision"
    assert label_of("ragas_context_precision") == "ragas_context_precision"


def test_names_of_which_nothing_is_left_stay_apart():
    """Names in another script do not all become one evaluation."""
    assert len({label_of("质量"), label_of("安全"), label_of("--"), label_of("__")}) == 4


def test_long_names_with_one_beginning_stay_apart():
    """What is cut off still counts."""
    assert label_of("a" * 250 + "x") != label_of("a" * 250 + "y")


def test_a_label_shared_by_two_names_is_told_once():
    """A person reads which two names to change."""
    labels = Labels()
    shield.notices.clear()
    for name in ("own.score", "own-score", "own-score", "other"):
        labels.of(name)
    told = [f"{notice.site} {notice.what}" for notice in shield.notices]
    assert len(told) == 1
    assert "own_score" in told[0]
    assert "'own.score'" in told[0]
    assert "'own-score'" in told[0]
