"""The words that announce a field: "total" before an amount, "expires" beside a date.

`cues` reads them off a field's name, its description and the question, and `Marks` says where they
stand in a text and how much they speak for a place in it. `Sections` are the parts of a text under
its headings.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from math import fsum
from typing import NamedTuple

from llmeval_sdk.model.chat import bounded_question
from llmeval_sdk.process.pieces import find_all


Cues = tuple[tuple[str, float], ...]
"""Pairs of a stem and its weight."""
MAX_CUES = 24
_MAX_CUE_TEXT = 600
NAME, DESCRIPTION, REQUEST = 1.0, 0.6, 0.4
"""What a cue is worth by where it was read: the field's own name says most."""

_WORD = re.compile(r"[^\W\d_]{2,}")
_JOINT = re.compile(r"(?<=[a-z])(?=[A-Z])|_")
_ENDINGS = (
    "ations", "ation", "ments", "ment", "ances", "ance", "ity", "als", "al", "ing", "ies", "ied",
    "ers", "ed", "er", "es", "s", "e", "y",
)  # fmt: skip
_STOP_WORDS = """
a an and any are as at be been by can did do does document documents every field for
from give given has have how if in into is it its may must name of on one or other out
page passage please return should such than that the their them then there these they
this those to value was were what when where which who whom whose why will with word
words would you your all each exact extract extracted find first get look most not only
per text tell use used using within under about after before between during also both
"""
_STOP = frozenset(_STOP_WORDS.split())


def cues(config: object, request: object) -> Cues:
    """Read the cue words of a field, as stems with what each is worth, the field's name first.

    ``config`` is a Record's ``field_config``: its ``name``, its ``description``, and ``cues``, a
    list of further words that count like the name. ``request`` adds the words of its question.
    """
    config = config if isinstance(config, Mapping) else {}
    name, description, more = config.get("name"), config.get("description"), config.get("cues")
    words = [name] if isinstance(name, str) else []
    if isinstance(more, (list, tuple)):
        words += [cue for cue in more[:MAX_CUES] if isinstance(cue, str)]
    return _read_cues(
        " ".join(words)[:_MAX_CUE_TEXT],
        description[:_MAX_CUE_TEXT] if isinstance(description, str) else "",
        bounded_question(request)[-_MAX_CUE_TEXT:],
    )


_SYNONYM = 0.5
"""What another word for a cue is worth, beside the cue itself."""
_SYNONYMS = """
agree: contract; amount: sum; audit: inspect examin record; begin: start commenc effective;
birth: born; breach: default fail; buyer: purchas customer client; cap: limit exceed maximum;
cancel: terminat; commit: minimum least; company: employer firm corporation;
cost: price charg fee; cover: insur; cure: remed correct rectif fail; deliver: ship dispatch;
discount: rebate reduction; employ: hire; end: expir terminat until through; exclusiv: sole compet;
expir: end until; govern: construed interpret; guarantee: warrant; insur: cover;
interest: rate; invoice: bill; issue: dated; law: jurisdiction; lease: rent; liab: damage;
licens: grant; locat: address; maximum: cap exceed limit; minimum: least;
notic: notif inform prior advance; owner: holder; party: between; pay: pay paid invoice fee net;
period: term; phone: telephone call;
purchas: buy order; quantity: number count; renew: extend prolong successive additional further;
revenu: royalt percent; royalt: percent; salary: compensation wage; seller: supplier vendor;
sign: execut; start: begin commenc effective; term: period duration; terminat: cancel end;
total: sum overall; venue: court jurisdiction; warrant: guarantee defect
"""
"""Beginnings of words, each with the beginnings of others that texts use in its place."""
_OTHER_WORDS: Mapping[str, list[str]] = {
    word.strip(): others.split()
    for word, _, others in (entry.partition(":") for entry in _SYNONYMS.split(";"))
}
_SHORTEST = min(map(len, _OTHER_WORDS))


@lru_cache(512)
def _read_cues(name: str, description: str, request: str) -> Cues:
    worth: dict[str, float] = {}
    sources = ((_JOINT.sub(" ", name), NAME), (description, DESCRIPTION), (request, REQUEST))
    for text, weight in sources:
        for word in _WORD.findall(text.lower()):
            if word not in _STOP and len(worth) < MAX_CUES:
                worth.setdefault(_stem(word), weight)
    for stem, weight in list(worth.items()):
        for end in range(_SHORTEST, len(stem) + 1):
            for other in _OTHER_WORDS.get(stem[:end], ()):
                worth.setdefault(other, _SYNONYM * weight)
    return tuple(worth.items())


def _stem(word: str) -> str:
    """Cut a word to the beginning that its inflections share."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


BEFORE, AFTER = 120, 90
"""Characters before and after a value in which a cue counts. Measured: 60 to 160 hardly differ."""
MAX_PLACES = 200
"""Of one cue."""
_AFTER_WEIGHT = 0.6
_OTHER_LINE = tuple(0.75**lines for lines in range(5))
"""Factors by the number of line breaks between cue and value; the last is for four or more."""
_MAX_CUE = 30
_MAX_KNOWN = 1_000
"""Results for so many places are kept."""


class Marks(NamedTuple):
    """The cues of a field in one text, in the order of their places."""

    lowered: str
    starts: list[int]
    ends: list[int]
    which: list[int]
    weights: list[float]
    """Of each cue: what it is worth, less where it stands everywhere."""
    known: dict[tuple[int, int], float]
    """How much the cues speak for the places that were asked about before."""
    cues: Cues
    sections: Sections
    headings: list[float]
    """How much the heading of each section is about the field, 0..1."""

    @classmethod
    def of(cls, lowered: str, cues: Cues, sections: Sections | None = None) -> Marks:
        """Find cues, each a stem and what it is worth, in a lower-case text and its headings."""
        marks: list[tuple[int, int, int]] = []
        weights: list[float] = []
        for stem, worth in cues:
            places = _places(lowered, stem)
            if places:
                marks += [(place, place + len(stem), len(weights)) for place in places]
                weights.append(worth / len(places) ** 0.25)
        marks.sort()
        starts, ends, which = ([mark[part] for mark in marks] for part in range(3))
        sections = sections or Sections([], [])
        headings = sections.scores(cues)
        return cls(lowered, starts, ends, which, weights, {}, cues, sections, headings)

    def near(self, start: int, end: int) -> float:
        """Say how much the cues speak for a place, as the sum over the nearest of each."""
        starts, place = self.starts, (start, end)
        near = self.known.get(place)
        if near is None:
            low = bisect_left(starts, start - BEFORE - _MAX_CUE)
            if low == len(starts) or starts[low] > end + AFTER:  # no cue is near: the usual case
                return 0.0
            near = fsum([near for near, _ in self._nearest(start, end).values()])
            if len(self.known) < _MAX_KNOWN:
                self.known[place] = near
        return near

    def best(self, spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, int] | None, float]:
        """Return the place that cues speak for most, and how much they do."""
        best, most = (spans[0] if spans else None), 0.0
        for start, end in spans:
            near = self.near(start, end)
            if near > most:
                best, most = (start, end), near
        return best, most

    def word(self, start: int, end: int) -> str | None:
        """Return the cue that speaks most for a place, as the text writes it."""
        nearest = self._nearest(start, end)
        if not nearest:
            return None
        _, place = max(nearest.values(), key=lambda say: (say[0], -say[1]))
        stop = place
        while stop < min(len(self.lowered), place + _MAX_CUE) and self.lowered[stop].isalnum():
            stop += 1
        return self.lowered[place:stop]

    def _nearest(self, start: int, end: int) -> dict[int, tuple[float, int]]:
        """Return how much each cue near a place speaks for it, and where that cue stands.

        The nearest of a cue on each side decides: what stands farther away is worth less, and no
        fewer line breaks part it from the place.
        """
        lowered, starts, ends, cues, weights = self[:5]
        low = bisect_left(starts, start - BEFORE - _MAX_CUE)
        middle = bisect_left(starts, end, low)
        high = bisect_right(starts, end + AFTER, middle)
        best: dict[int, tuple[float, int]] = {}
        for at in range(middle - 1, low - 1, -1):
            which = cues[at]
            if which in best:
                continue
            place, stop = starts[at], ends[at]
            if stop > start:  # a part of the value, as in "MIT License"
                best[which] = weights[which], place
            elif (near := 1 - (start - stop) / BEFORE) > 0:
                near *= weights[which]
                lines = lowered.count("\n", stop, start)
                best[which] = near * _OTHER_LINE[min(lines, 4)] if lines else near, place
        passed: set[int] = set()
        for at in range(middle, high):
            which = cues[at]
            if which in passed:
                continue
            passed.add(which)
            place = starts[at]
            near = _AFTER_WEIGHT * (1 - (place - end) / AFTER) * weights[which]
            most = best[which][0] if which in best else 0.0
            if near <= most:  # line breaks would only make it less
                continue
            if lines := lowered.count("\n", end, place):
                near *= _OTHER_LINE[min(lines, 4)]
            if near > most:
                best[which] = near, place
        return best


# What the sections of a text are about, by their headings.

_MAX_SECTIONS = 300
_NUMBER = r"(?:(?i:section|article|clause|§)[ \t]{0,2})?\d{1,2}(?:\.\d{1,2}){0,3}[.)]?[ \t]+"
_HEADING = re.compile(
    r"\n[ \t]{0,8}(?:"
    r"#{1,6}[ \t]+([^\n]{2,80})"
    rf"|{_NUMBER}([^\W\d_][^\n.:;]{{2,60}})(?=[.:\n]|\Z)"
    r"|([^\W\d_][^\n.:;]{3,60})$"
    r")",
    re.MULTILINE,
)
"""Behind a mark, behind a number, or a line of capitals, which is what the last group must be."""


class Sections(NamedTuple):
    """The sections of a text: where each begins, and its heading in lower case.

    A heading is empty where a passage begins in the middle of a section, and there are no sections
    in a text without any heading.
    """

    starts: list[int]
    headings: list[str]

    def at(self, place: int) -> int:
        """Return the index of the section that a place stands in; -1 before the first one."""
        return bisect_right(self.starts, place) - 1

    def scores(self, cues: Cues) -> list[float]:
        """Say how much each heading is about a field with some cues, 0..1."""
        return [
            min(1.0, fsum(weight for stem, weight in cues if _places(heading, stem)))
            for heading in self.headings
        ]


def sections_in(text: str, lowered: str, passages: Sequence[int]) -> Sections:
    """Find the sections of a text by their headings; ``passages`` are where its passages begin."""
    lines = f"\n{text}"  # the engine finds line breaks ten times as fast as beginnings of lines
    matches = (match for match in find_all(_HEADING, lines) if not match[3] or match[3].isupper())
    sections = dict.fromkeys(passages, "")
    for match in islice(matches, _MAX_SECTIONS):
        start, end = match.span(match.lastindex or 0)
        sections[match.start()] = lowered[start - 1 : end - 1].strip()
    starts = sorted(sections) if any(sections.values()) else []
    return Sections(starts, [sections[start] for start in starts])


def _places(lowered: str, stem: str) -> list[int]:
    """Return where words that begin with a stem stand."""
    places = []
    at = lowered.find(stem)
    for _ in range(MAX_PLACES):
        if at < 0:
            break
        if at == 0 or not lowered[at - 1].isalnum():
            places.append(at)
        at = lowered.find(stem, at + len(stem))
    return places
