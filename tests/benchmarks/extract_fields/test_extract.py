"""The rules: what they take from one passage, how sure they are, and when they stay silent."""

from __future__ import annotations

import pytest
from extract_fields.app import find, vote
from extract_fields.grading import license_alternatives


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("license", "Licensed under the Apache License, Version 2.0", "Apache-2.0"),
        ("license", "Distributed under the 3-clause BSD license.", "BSD-3-Clause"),
        ("author", "Copyright (c) 2014, 2019-present Ada Brew <a@b.example>", "Ada Brew"),
        (
            "author",
            "Copyright © 2020 The teapot developers. All rights reserved.",
            "The teapot developers",
        ),
        ("author", "teapot was created by Ada van Brew in 2014", "Ada van Brew"),
        ("minimum_python", "Requires Python 3.8 or later", "3.8"),
        ("minimum_python", "Python >= 3.10 is needed", "3.10"),
        (
            "repository",
            "Clone https://github.com/Kettle/Teapot.git today",
            "https://github.com/kettle/teapot",
        ),
        (
            "documentation",
            "[docs](https://teapot.readthedocs.io/en/stable/)",
            "https://teapot.readthedocs.io",
        ),
        (
            "summary",
            "# teapot\n\nTeapot is a library that brews tea.",
            "Teapot is a library that brews tea.",
        ),
    ],
)
def test_a_plain_statement_is_understood(field, text, value):
    """Each field's usual wordings give its value, with words of the text as evidence."""
    found = find(field, "teapot", text)
    assert found is not None
    assert found["value"] == value
    assert 0 < found["confidence"] <= 1
    assert found["evidence"]


def test_a_license_is_known_by_its_wording(grant):
    """A licence text that never says its name is still recognised."""
    found = find("license", "teapot", grant)
    assert found is not None
    assert found["value"] == "MIT"


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("license", "Tea is a drink."),
        ("author", "the copyright notice and the copyright holders"),
        ("minimum_python", "Dropped support for Python 3.7"),
        ("minimum_python", "Python 2.0 license"),
        ("repository", "https://github.com/sponsors/kettle"),
        ("documentation", "https://img.shields.io/docs.svg"),
        ("summary", "Tea!"),
    ],
)
def test_a_lookalike_gives_nothing(field, text):
    """Text that only resembles a statement is left alone."""
    assert find(field, "teapot", text) is None


def test_the_packages_own_repository_beats_a_more_frequent_one():
    """A link called like the package is taken, and surely, though another stands more often."""
    text = "github.com/tea/leaves github.com/tea/leaves github.com/kettle/teapot"
    found = find("repository", "teapot", text)
    other = find("repository", "samovar", text)
    assert found is not None
    assert other is not None
    assert found["value"] == "https://github.com/kettle/teapot"
    assert other["value"] == "https://github.com/tea/leaves"
    assert found["confidence"] > other["confidence"]


def test_a_summary_is_surer_on_the_first_page():
    """The same sentence weighs half as much deep in the document."""
    text = "Teapot is a library that brews tea."
    first, later = find("summary", "teapot", text, 1), find("summary", "teapot", text, 5)
    assert first is not None
    assert later is not None
    assert first["confidence"] == 2 * later["confidence"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("MIT OR Apache-2.0", ("MIT", "Apache-2.0")),
        ("BSD-3-Clause AND MIT AND Zlib", ("BSD-3-Clause",)),
        ("Apache Software License 2.0", ("Apache-2.0",)),
        ("GPL-3.0-or-later", ("GPL-3.0",)),
        ("LGPLv2+", ("LGPL-2.1",)),
        ("our own terms", ()),
    ],
)
def test_license_fields_are_read_as_choices(written, meant):
    """``OR`` offers choices, and of ``AND`` the package's own licence comes first."""
    assert license_alternatives(written) == meant


def test_votes_are_weighed_by_confidence_not_counted():
    """One sure extraction beats two unsure ones."""
    found = [
        {"value": "3.8", "confidence": 0.3},
        {"value": "3.8", "confidence": 0.3},
        {"value": "3.10", "confidence": 0.9},
    ]
    answer = vote("minimum_python", found)
    assert answer.value == "3.10"
    assert answer.confidence == "MEDIUM"


def test_spellings_of_one_value_vote_together():
    """Case and titles do not split a vote, and the spelling used most is the answer."""
    names = ["Ada Brew", "ADA BREW", "Ada Brew", "Ivan Samov"]
    answer = vote("author", [{"value": name, "confidence": 0.8} for name in names])
    assert answer == vote(
        "author",
        [{"value": "Ada Brew", "confidence": 0.8}] * 3
        + [{"value": "Ivan Samov", "confidence": 0.8}],
    )
    assert answer.value == "Ada Brew"
    assert answer.confidence == "HIGH"


def test_no_extraction_gives_no_answer():
    """Without votes there is no value, and little confidence in that."""
    answer = vote("author", [])
    assert (answer.value, answer.confidence) == (None, "LOW")
