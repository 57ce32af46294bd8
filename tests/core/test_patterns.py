"""No pattern of the package takes long on any text, whatever a stranger writes into it."""

from __future__ import annotations

import re
from functools import cache

import pytest
from patterns import Reading, Site, sites

from llmeval_sdk.exporters import _secrets, redaction
from llmeval_sdk.heuristics.risk import _words
from llmeval_sdk.plugins.agents import phrases
from llmeval_sdk.plugins.demo import app as demo
from llmeval_sdk.text import labels, stated, values
from llmeval_sdk.text.locales import calendar


LENGTH = 200_000
LOCALS = {
    "heuristics/extraction/_answer.py:_is_named": [{"stem": "report"}],
    "judges/prompt.py:_without": [{"boundary": "0a" * 16}],
    "offline/run/experiment.py:_is_id": [{"length": 32}],
    "plugins/agents/origins.py:_is_said_date": [{"day": 7}],
    "plugins/agents/origins.py:_names": [{"stands": r"(?<!\w)word(?!\w)"}],
    "plugins/demo/app.py:_license": [{"pattern": pattern} for pattern in demo.LICENSES.values()],
    "text/amounts.py:_named_dates": [{"there": calendar().months.keys()}],
    "tracing/_capture.py:_lines_around": [{"width": 76}],
    "tracing/_capture.py:_end_of_lines": [{"width": 76}],
    "viewer/_trace.py:read_run": [{"number": 7}],
}
"""Examples of the names of which a running function makes a pattern."""
MADE = {
    "exporters/_secrets.py:_token": lambda: [_secrets._token()],
    "exporters/_secrets.py:_behind": lambda: [
        _secrets._behind(beginning, has_signs=True)
        for beginning in (" ", _secrets._ESCAPED + _secrets._ESCAPE_ENDS)
    ],
    "exporters/_secrets.py:_behind_end": lambda: [_secrets._behind_end()],
    "exporters/_secrets.py:_token_bytes": lambda: [_secrets._token_bytes()],
    "exporters/_secrets.py:_compiled": lambda: [
        _secrets._compiled(p, is_text=True) for _, p, _ in _secrets.MARKED
    ],
    "exporters/_secrets.py:_ESCAPES_IN_BYTES": _secrets._ESCAPES_IN_BYTES.values,
    "exporters/_secrets.py:_first_parts": lambda: [_secrets._first_parts()],
    "exporters/_secrets.py:_named": lambda: map(_secrets._named, ":="),
    "exporters/_secrets.py:_value": lambda: map(
        _secrets._value, ("password", "header", "sure", "cookie", "likely")
    ),
    "exporters/redaction.py:_compiled": lambda: [
        redaction._compiled(pattern)
        for detector in redaction.DETECTORS.values()
        for _, pattern in getattr(detector, "patterns", ())
    ],
    "heuristics/risk/_words.py:_refusals": lambda: [_words._refusals()],
    "plugins/agents/phrases.py:_CUES": lambda: [cue for _, cues in phrases._CUES for cue in cues],
    "text/labels.py:_pattern": lambda: [
        labels._phrases(None)[word]._pattern for word in [*labels._phrases(None)][::10]
    ],
    "text/stated.py:_phrase": lambda: [stated._phrase("Invoice number"), stated._phrase("")],
    "text/values.py:_COMPILED": lambda: [p for many in values._COMPILED.values() for p in many],
    "text/values.py:_ASCII": lambda: [p for many in values._ASCII.values() for p in many],
}
"""What gives the patterns that a function keeps."""
MATCHED = dict.fromkeys(
    ("exporters/_secrets.py:_compiled", "exporters/_secrets.py:_value"), frozenset({"match"})
)
"""Those of them that are tried at one place."""
OPERATORS = {"heuristics/_reading.py:_matches_pattern", "process/patterns.py:_is_of"}
"""Patterns that the app's operator writes."""


@cache
def every_site() -> tuple[Site, ...]:
    return tuple(
        site._replace(
            patterns=tuple(MADE[site.place]()), methods=MATCHED.get(site.place, site.methods)
        )
        if not site.patterns and site.place in MADE
        else site
        for site in sites(LOCALS)
    )


def test_every_pattern_of_the_package_is_read():
    """One that only a running function makes has an example here."""
    made = {site.place for site in every_site() if site.patterns}
    assert {site.place for site in every_site()} - made == OPERATORS
    assert {*LOCALS, *MADE} <= made
    assert len(made) > 200


def test_no_pattern_can_part_a_text_in_two_ways():
    """Two long repeats side by side that share a character try each place with each other place."""
    shared = {
        site.place: sorted(left.first & right.first)[:5]
        for site in every_site()
        for pattern in site.patterns
        for left, right in Reading(pattern).shared
    }
    assert not shared


@pytest.mark.parametrize(
    ("pattern", "is_slow"),
    [
        (r"[ \t]*(?:[:\t]|  )[ \t:]*([^\n]{1,100})", True),
        (r"\s*(\S.*)?\s*\Z", True),
        (r"(?:[a-z]+-?)+!", True),
        (r"(?:[a-z]+(?:-[a-z]+)*)!", False),
        (r"\w+\d+", True),
        (r"\D+\d+", False),
        (r"[ab]{0,400}[bc]{0,400}", True),
        (r"[ab]{0,40}[bc]*", False),
        (r"a*(?=a*)b", False),
        (r"(?:x+|y)*z", True),
    ],
)
def test_a_parse_tree_shows_what_would_be_slow(pattern, is_slow):
    """The reading that the test above relies on finds nested repeats and those beside each other."""
    assert bool(Reading(re.compile(pattern)).shared) is is_slow


@pytest.mark.parametrize("file", sorted({site.place.split(":")[0] for site in every_site()}))
def test_no_pattern_hangs_on_a_text_of_its_own_characters(file):
    """200,000 of the characters that it repeats, and of its shortest matches, whole and broken off."""
    for site in every_site():
        if site.place.startswith(f"{file}:"):
            for pattern in site.patterns:
                for text in dict.fromkeys(Reading(pattern).hostile(LENGTH)):
                    for method in site.methods:
                        if (found := getattr(pattern, method)(text)) and method == "finditer":
                            for _ in found:
                                pass
