"""Whether a text supports a value, how and where: the one reader for all scores and the viewer.

Every regular expression here takes time linear in the length of the text, whatever the text is.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice
from operator import add, itemgetter
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args, overload

from llmeval_sdk.process.loading import loading
from llmeval_sdk.process.pieces import find_all, paced, pause, pieces
from llmeval_sdk.text.amounts import (
    CURRENCIES,
    MEASURES,
    SHARED_SIGNS,
    Amount,
    Date,
    Tokens,
    amounts,
    dates,
    only_amounts,
    only_date,
    same,
    times,
)
from llmeval_sdk.text.budget import WorkBudget
from llmeval_sdk.text.conventions import Conventions, conventions_for, conventions_of
from llmeval_sdk.text.folding import fold, is_dense, plain, plain_starts, word_spans, words
from llmeval_sdk.text.locales import CHECKED, NO, UNCHECKED, YES, Coded, coded


How = Literal[
    "verbatim", "normalised", "date", "money", "unit", "number", "code", "boolean", "aligned",
    "unsupported",
]  # fmt: skip
WAYS: tuple[How, ...] = get_args(How)
"""The ways in which a text can support a value, from the strictest to the loosest."""

Span = tuple[int, int]
"""Where something begins and ends in the text as it was written."""

MAX_PLACES = 20
"""Places of one value that are returned."""

_EXACT = 2.0**53
"""Integers from here on are compared as text."""
_SHORT = 100
"""How many characters a date or an amount may have."""
MAX_CODE = 3
"""Letters of a code of a country, currency or language."""
_SQUASHED = 4
_IDENTIFIED = 10
"""Letters and figures of an identifier, at the least; texts write them in groups."""
_FIGURES = re.compile(r"\d+")
_IDENTIFIER = re.compile(r"(?=(?:\D*\d){6})[\d\s()/+-]+")
_ASIDE = re.compile(r"\([^()\n]{0,80}\)")
_BREAKS, _AND = (
    re.compile(r"[;\n]"),
    re.compile(r"(?<=[\w.)]) (?:and|&|und|et|y|e|en|og|och|i|ja) (?=[A-Z])"),
)
_KIND_OF_REGION = re.compile(
    r"(?:the )?(?:state|commonwealth|province|republic|kingdom|canton) of (?:the )?", re.IGNORECASE
)
_MAX_PARTS = 10
_OCCURRENCES = 1_000
_WINDOW = 4


class Found(NamedTuple):
    """How a text supports a value, and where."""

    how: How
    spans: tuple[Span, ...] = ()
    """At most `MAX_PLACES`, in the order in which they were met."""


_UNSUPPORTED = Found("unsupported")


def support(value: object, evidence: EvidenceText) -> How | None:
    """Return how a text supports one value, or ``None`` if there is nothing to check."""
    answer = find(value, evidence, most=1)
    return None if answer is None else answer.how


def find(value: object, evidence: EvidenceText, *, most: int = MAX_PLACES) -> Found | None:
    """Return how and where a text supports one value, or ``None`` if there is nothing to check.

    A value in words has to stand in the text as it is, normalised, or nearly; a number, amount or
    date may be written differently there but has to be the same, and a code of a list of codes,
    such as ``DE`` or ``BSD-3-Clause``, may stand there by its name. A boolean is checked only where
    the text says yes or no somewhere. ``None`` and what has no letter or figure are not checked.
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(value, bool):
        return _find_boolean(value, evidence)
    if isinstance(value, (int, float)) and abs(value) < _EXACT:
        amount = Amount((abs(float(value)),), negative=value < 0)
        spans = _spans_of_amount(amount, evidence)
        return _found("number", spans) or _UNSUPPORTED
    return _find_text(_text_of(value), evidence, most)


def _find_text(  # noqa: C901, PLR0911 - one way after the other
    text: str, evidence: EvidenceText, most: int
) -> Found | None:
    evidence.budget.spend(50 + len(text) / 10 + len(evidence.text) / 100)
    if not any(map(str.isalnum, text)):
        return None
    if stated := _found("verbatim", _verbatim(evidence.text, text, evidence.budget), most):
        return stated
    lowered = text.lower()
    folded = fold(text) if len(text) <= _SHORT else ""
    if lowered in BOOLEANS:  # "ja" is a yes, and a language; "NO" is a no, and a country
        stated = _find_boolean(lowered in YES, evidence)
        return stated or _found("code", _spans_of_codes(text, folded, evidence))
    if len(text) <= MAX_CODE and text.isupper() and coded(text, folded):
        spans = _spans_of_codes(text, folded, evidence)
        return _found("code", spans) or _UNSUPPORTED  # in small letters it may be any word
    if len(text) <= _SHORT:
        known = _parsed(text, folded, evidence)
        if known is not None:
            return known
    evidence.budget.spend(len(text) + len(evidence.folded) / 50)
    _spend_growth(text, evidence.budget)
    folded = folded or fold(text)
    if stated := _found("normalised", _folded_spans(folded, evidence), most):
        return stated
    is_identifier = len(folded) >= _IDENTIFIED and folded.isalnum() and not folded.isalpha()
    squashed = _squashed_spans(folded.split(), evidence, apart=is_identifier)
    if stated := _found("normalised", squashed, most):
        return stated
    if stated := _found("code", _spans_of_codes(text, folded, evidence)):
        return stated
    evidence.budget.spend(2 * len(text))
    if stated := _found("aligned", _aligned_spans(words(text, folded), evidence)):
        return stated
    return _find_region(text, evidence) or _find_parts(text, evidence) or _UNSUPPORTED


def _find_region(text: str, evidence: EvidenceText) -> Found | None:
    """Look for the bare name of a region: Ohio, where the value is "State of Ohio, USA"."""
    first, comma, last = text.rpartition(",")
    meanings = coded(last.strip(), fold(last)) if comma and len(text) <= _SHORT else ()
    bare = first if any(meaning.kind == "country" for meaning in meanings) else text
    bare = _KIND_OF_REGION.sub("", bare.strip(), count=1)
    return None if bare == text else _found("normalised", _folded_spans(fold(bare), evidence))


def _find_parts(text: str, evidence: EvidenceText) -> Found | None:
    """Look for each part of a list that is written as one text; ``None`` if it is no such list.

    What stands in brackets behind a part, as in ``Acme Ltd. (Supplier); Bolt Inc. (Buyer)``, only
    explains it.
    """
    text = "".join([_ASIDE.sub("", piece) for piece in pieces(text)])
    splits = (_split(text, breaks) for breaks in (_BREAKS, _AND))
    parts = next((parts for parts in splits if len(parts) > 1), [])
    parts = list(filter(None, map(str.strip, parts)))
    if not 1 < len(parts) <= _MAX_PARTS:
        return None
    answers = [_find_text(part, evidence, 1) for part in parts]
    ways = [answer.how for answer in answers if answer is not None]
    if not ways or "unsupported" in ways:
        return None
    spans = chain.from_iterable(answer.spans for answer in answers if answer is not None)
    return Found(max(ways, key=WAYS.index), tuple(spans))


def _split(text: str, breaks: re.Pattern[str]) -> list[str]:
    """Split a text at its breaks; of a list that is too long, the rest stays together."""
    matches = list(islice(find_all(breaks, text), 2 * _MAX_PARTS))
    starts = [0, *(match.end() for match in matches)]
    ends = [*(match.start() for match in matches), len(text)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


def _found(how: How, spans: Iterable[Span], most: int = MAX_PLACES) -> Found | None:
    """Return an answer if there is a first place at all."""
    places = tuple(islice(spans, most))
    return Found(how, places) if places else None


BOOLEANS = YES | NO
"""Words that are a yes or a no by themselves."""


def _find_boolean(value: bool, evidence: EvidenceText) -> Found | None:  # noqa: FBT001
    """Look for words that say yes or no. Where there are none, nothing was checked."""
    yes_or_no, signs = (YES, CHECKED) if value else (NO, UNCHECKED)
    text = evidence.text
    evidence.budget.spend(len(text) / 4)
    spans = [
        match.span()
        for match in find_all(_BOOLEAN_WORD, text)
        if (word := match[0].lower()) in yes_or_no or word in signs
    ]
    return _found("boolean", spans)


_BOOLEAN_WORD = re.compile(rf"[^\W\d_]{{1,8}}|[{CHECKED}{UNCHECKED}]")


def _spans_of_codes(text: str, folded: str, evidence: EvidenceText) -> Iterator[Span]:
    """Yield where a text has a value that is in the lists of codes, as its code or by a name."""
    for meaning in coded(text, folded):
        yield from _coded_spans(meaning, evidence)


def _coded_spans(meaning: Coded, evidence: EvidenceText) -> Iterator[Span]:
    """Yield where a text has a code, in capitals, or one of its names."""
    if meaning.code.isupper() or meaning.kind == "licence":
        yield from _verbatim(evidence.text, meaning.code, evidence.budget)
    for name in meaning.names:
        evidence.budget.spend(len(evidence.folded) / 100)
        yield from _folded_spans(name, evidence)
    if meaning.kind == "currency":
        for sign, code in CURRENCIES.items():
            is_own = code == meaning.code or meaning.code in SHARED_SIGNS.get(code, ())
            is_word = len(sign) >= 3 and sign.upper() != code  # a shorter one may be any word
            if is_own and (is_word or not (sign.isascii() and sign.isalpha())):
                for span in _verbatim(evidence.plain, sign, evidence.budget):
                    yield evidence.original(*span)


def _text_of(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    try:
        return str(value.isoformat() if hasattr(value, "isoformat") else value).strip()
    except Exception:
        return ""


def _parsed(text: str, folded: str, evidence: EvidenceText) -> Found | None:
    """Look for a date, an amount or an identifier. ``None`` if the value is none of these."""
    lowered = plain(text)
    if len(text) <= 8 and text[-1] in "+-#":  # a grade such as BBB+
        spans = _verbatim(evidence.plain, lowered, evidence.budget)
        return _found("normalised", (evidence.original(*span) for span in spans)) or _UNSUPPORTED
    readings, time = only_date(lowered)
    if readings:
        places = (span for date, span in evidence.dates if any(same(one, date) for one in readings))
        if stated := _found("date", places):
            return stated if time is None or time in evidence.times else _UNSUPPORTED
    amounts = only_amounts(lowered)
    if amounts:
        kind: How = "money" if amounts[0].currencies else "unit" if amounts[0].unit else "number"
        every = [tuple(islice(_spans_of_amount(one, evidence), MAX_PLACES)) for one in amounts]
        if all(every):
            return Found(kind, every[0])
    if _IDENTIFIER.fullmatch(text) and (
        stated := _found(
            "normalised", _squashed_spans(_FIGURES.findall(text), evidence, apart=True)
        )
    ):
        return stated
    if readings and (stated := _found("normalised", _folded_spans(folded, evidence))):
        return stated
    return _UNSUPPORTED if readings or amounts else None


def _verbatim(text: str, value: str, budget: WorkBudget) -> Iterator[Span]:
    """Yield where a text has a value character for character, and not inside a word."""
    start = text.find(value)
    for _ in range(_OCCURRENCES):
        if start < 0:
            return
        budget.spend(5)
        end = start + len(value)
        if not _goes_on(text, start, -1) and not _goes_on(text, end - 1, 1):
            yield start, end
        start = text.find(value, start + 1)


def _folded_spans(folded: str, evidence: EvidenceText) -> Iterator[Span]:
    """Yield where a text has some folded words side by side."""
    if not folded:
        return
    text, wanted = evidence.folded, f" {folded} "
    start = text.find(wanted)
    for _ in range(MAX_PLACES):
        if start < 0:
            return
        first = text.count(" ", 0, start + 1) - 1
        yield evidence.span_of_words(first, first + folded.count(" "))
        start = text.find(wanted, start + len(wanted) - 1)


def _goes_on(text: str, edge: int, step: int) -> bool:
    """Return whether the word or number at an edge goes on beyond it."""
    beside = text[max(edge + step, 0) : edge + step + 1]
    if not beside:
        return False
    if text[edge].isdigit():
        beyond = text[max(edge + 2 * step, 0) : edge + 2 * step + 1]
        return beside.isdigit() or (beside in ".," and beyond.isdigit())
    if not text[edge].isalpha() or is_dense(text[edge]):
        return False
    if step > 0 and "\uac00" <= text[edge] <= "\ud7a3":  # Korean particles stick to a name
        return False
    return unicodedata.category(beside)[0] in "LM"


def _squashed_spans(
    value: list[str], evidence: EvidenceText, *, apart: bool = False
) -> Iterator[Span]:
    """Yield where a text has words with other spaces; ``apart`` allows split figures too."""
    joined = "".join(value)
    if len(joined) < _SQUASHED:
        return
    squashed, there, starts = evidence.squashed
    start = squashed.find(joined)
    for _ in range(_OCCURRENCES):
        if start < 0:
            return
        evidence.budget.spend(20)
        first, last = bisect_left(starts, start), bisect_left(starts, start + len(joined))
        is_whole = starts[first] == start and starts[last] == start + len(joined)
        if is_whole and (apart or _figures_in(value) == _figures_in(there[first:last])):
            yield evidence.span_of_words(first, last - 1)
        start = squashed.find(joined, start + 1)


def _figures_in(words: Sequence[str]) -> list[str]:
    return [match[0] for match in find_all(_FIGURES, " ".join(words))]


def _aligned_spans(value: list[str], evidence: EvidenceText) -> Iterator[Span]:
    """Yield where a text nearly has some words. The last word of a name may come first."""
    if len(value) > MAX_WORDS:
        return
    if aligned(value, evidence.words, evidence.budget):
        yield _span_around(value, evidence)
        return
    if not 2 <= len(value) <= 4 or not "".join(value).isalpha():
        return
    for turned in ([value[-1], *value[:-1]], [*value[1:], value[0]]):
        yield from _folded_spans(" ".join(turned), evidence)


def _span_around(value: Sequence[str], evidence: EvidenceText) -> Span:
    """Return the place with most words of a value that a text nearly has."""
    wanted = set(value)
    there = evidence.squashed[1]
    places = [index for index, word in enumerate(there) if word in wanted]
    reach = len(value) + len(value) // 2 + 2
    best, most = (0, 0), 0
    for at, first in enumerate(places):
        last = bisect_left(places, first + reach) - 1
        if last - at + 1 > most:
            best, most = (first, places[last]), last - at + 1
    return evidence.span_of_words(*best)


def _spans_of_amount(value: Amount, evidence: EvidenceText) -> Iterator[Span]:
    """Yield where a text has an amount, in any spelling or in a unit that converts exactly."""
    for reading in value.readings:
        if value.unit:
            yield from _same_measures(value, reading, evidence)
            continue
        if not evidence.may_have(reading):
            continue
        for candidate in evidence.amounts.get(rounded(reading), ()):
            if _agree(value, candidate):
                yield evidence.span_of_amount(candidate)


def _agree(value: Amount, candidate: Amount) -> bool:
    """Return whether two equal numbers agree in sign and currency, if both have them."""
    if value.negative and not candidate.negative:
        return False
    if not value.currencies:
        return True
    if candidate.unit and MEASURES[candidate.unit][0] == "percent":
        return False
    return not candidate.currencies or any(
        one == other or other in SHARED_SIGNS.get(one, ()) or one in SHARED_SIGNS.get(other, ())
        for one in value.currencies
        for other in candidate.currencies
    )


def _same_measures(value: Amount, reading: float, evidence: EvidenceText) -> Iterator[Span]:
    what, size = MEASURES[value.unit or ""]
    for candidate in evidence.amounts.get(rounded(reading), ()):
        if candidate.unit is None and _unit_is_near(candidate, what, size, evidence):
            yield evidence.span_of_amount(candidate)
    amount = reading * size
    for known, candidate in evidence.measured.get(what, ()):
        if math.isclose(amount, known, rel_tol=1e-9):
            yield evidence.span_of_amount(candidate)


def _unit_is_near(number: Amount, what: str, size: float, evidence: EvidenceText) -> bool:
    """Return whether the unit of a bare number stands a few words off, as in a heading.

    The unit of another number, as in "three (3) years, expiring on March 2", is not its own.
    """
    words = evidence.tokens.words
    first = max(number.place - _WINDOW, 0)
    near = any(
        MEASURES.get(word) == (what, size) and at not in evidence.measured_tokens
        for at, word in enumerate(words[first : number.place + _WINDOW + 1], start=first)
    )
    if not near:
        return False
    start, _ = evidence.span_of_amount(number)
    return not any(begin <= start < end for _, (begin, end) in evidence.dates)


# A text in which values are looked for. Each view of it is made when it is first needed.


# A property that is computed once and takes no lock.

Value = TypeVar("Value")


class lazy(Generic[Value]):  # noqa: N801 - reads as a decorator
    """`functools.cached_property` without the lock that all objects of a class share until 3.12.

    A thread of the parent holds that lock when it forks, and the child waits for it for ever.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> lazy[Value]: ...
    @overload
    def __get__(self, owner: object, kind: type) -> Value: ...
    def __get__(self, owner: object | None, kind: type) -> lazy[Value] | Value:
        """Compute the value and leave it on the object, where it is read from then on."""
        if owner is None:
            return self
        value = owner.__dict__[self._name] = self._compute(owner)
        return value


_PIECE = 1_000
_TELLING = 3
"""Figures of a number that few texts have by chance."""
_WITHOUT_MARKS = str.maketrans("", "", " .,'\u2019")
_LARGE_WORDS = re.compile(r"\b(?:hundred|thousand)\b")


def rounded(value: float) -> float:
    """Round away what floating point adds to a number, so that equal numbers compare as equal."""
    return float(f"{value:.12g}")


def _spend_growth(text: str, budget: WorkBudget) -> None:
    """Spend the work that a text takes because its characters become several when it is folded."""
    if not text.isascii():
        for at in range(0, len(text), _PIECE):
            grown = len(unicodedata.normalize("NFKD", text[at : at + _PIECE]))
            budget.spend(4 * max(grown - _PIECE, 0))


class EvidenceText:
    """A text and its views: folded, without spaces, as words, dates and amounts.

    Each view spends work of the budget, and raises `TooLargeError` when none is left.
    """

    def __init__(
        self, text: str, budget: WorkBudget | None = None, *, locale: object = None
    ) -> None:
        self.budget = budget or WorkBudget()
        self.budget.admit(len(text))
        self.text = text
        self._spent = False
        self._locale = locale

    def _spend(self, units_per_character: float) -> None:
        """Spend by the length after expansion, because one character can become eighteen."""
        self.budget.spend(units_per_character * len(self.text))
        if not self._spent:
            _spend_growth(self.text, self.budget)
        self._spent = True

    @lazy
    def plain(self) -> str:
        """The text, ready to be parsed."""
        self._spend(0.5)
        return plain(self.text)

    @lazy
    def _plain_starts(self) -> list[int] | None:
        self._spend(0.5)
        return plain_starts(self.text)

    @property
    def keeps_places(self) -> bool:
        """Whether everything stands at the same place in the text and in its plain form."""
        return self._plain_starts is None

    def original(self, start: int, end: int) -> Span:
        """Return the place in the text of a place in its plain form."""
        starts = self._plain_starts
        if starts is None:
            return start, end
        return bisect_right(starts, start) - 1, bisect_left(starts, end)

    @lazy
    def _word_spans(self) -> list[Span]:
        self._spend(1)
        return word_spans(self.text, len(self.squashed[1]))

    def span_of_words(self, first: int, last: int) -> Span:
        """Return the place from one folded word to another, both included."""
        spans = self._word_spans
        return spans[min(first, len(spans) - 1)][0], spans[min(last, len(spans) - 1)][1]

    def span_of_amount(self, amount: Amount) -> Span:
        """Return the place of an amount, with its currency and unit."""
        spans = self.tokens.spans
        tokens = amount.tokens or range(amount.place, amount.place + 1)
        return self.original(spans[tokens[0]][0], spans[tokens[-1]][1])

    @lazy
    def folded(self) -> str:
        """The folded words, with a space before and after each."""
        self._spend(1)
        return f" {fold(self.text)} "

    @lazy
    def squashed(self) -> tuple[str, list[str], list[int]]:
        """The folded words joined, the words, and where each begins, followed by the end."""
        self._spend(1)
        found = self.folded.split()
        return "".join(found), found, [0, *accumulate(map(len, found))]

    @lazy
    def words(self) -> Words:
        """The words, for alignment."""
        self._spend(2)
        return Words(words(self.text))

    @lazy
    def conventions(self) -> Conventions:
        """How the text writes dates and numbers: as its locale does, else as its figures say."""
        self._spend(2)
        here, known = conventions_of(self.plain), conventions_for(self._locale)
        return Conventions(known.order or here.order, known.decimal or here.decimal)

    @lazy
    def dates(self) -> list[tuple[Date, Span]]:
        """Every reading of every date that its conventions leave open, with its place."""
        self._spend(4)
        return [
            (reading, self.original(date.start, date.end))
            for date in dates(self.plain)
            for reading in (
                date.readings if len(date.readings) < 2 else self.conventions.dates(date.readings)
            )
        ]

    @lazy
    def times(self) -> set[int]:
        """The times of day, in minutes."""
        self._spend(2)
        return times(self.plain)

    @lazy
    def tokens(self) -> Tokens:
        """The text split as amounts are read."""
        self._spend(3)
        return Tokens(self.plain)

    @lazy
    def _figures(self) -> tuple[str, bool]:
        """The text without the marks inside numbers, and whether it writes large ones in words."""
        self._spend(0.5)
        figures = "".join([piece.translate(_WITHOUT_MARKS) for piece in pieces(self.plain)])
        return figures, any(True for _ in find_all(_LARGE_WORDS, self.plain))

    def may_have(self, number: float) -> bool:
        """Say whether the figures of a number stand in the text at all, which is quickly seen.

        Scales and percents only move its point. Short numbers stand in almost every text.
        """
        digits = f"{number:.12g}"
        if "e" in digits:
            return True
        digits = digits.replace(".", "").strip("0")
        if len(digits) < _TELLING:
            return True
        figures, in_words = self._figures
        return in_words or digits in figures

    @lazy
    def amounts(self) -> dict[float, list[Amount]]:
        """The amounts in the text by their number; 6 % stands under 0.06 too."""
        self._spend(6)
        found: dict[float, list[Amount]] = {}
        for amount in amounts(self.tokens):
            if len(amount.readings) > 1:
                number = self.tokens.words[amount.place]
                numbers = self.conventions.numbers(amount, number)
            else:
                numbers = amount.readings
            for reading in numbers:
                found.setdefault(rounded(reading), []).append(amount)
                if amount.unit and MEASURES[amount.unit][0] == "percent":
                    share = amount._replace(unit=None)
                    found.setdefault(rounded(reading / 100), []).append(share)
        return found

    @lazy
    def measured(self) -> dict[str, list[tuple[float, Amount]]]:
        """What is measured (mass, months ...) -> every amount of it; a year is also 365 days."""
        found: dict[str, list[tuple[float, Amount]]] = {}
        for amount in {id(one): one for many in self.amounts.values() for one in many}.values():
            if amount.unit:
                what, size = MEASURES[amount.unit]
                found.setdefault(what, []).extend((size * one, amount) for one in amount.readings)
        return found

    @lazy
    def measured_tokens(self) -> set[int]:
        """The tokens that belong to an amount with a unit."""
        every = (amount for many in self.measured.values() for _, amount in many)
        return {token for amount in every for token in amount.tokens}


# The alignment of a value with a text word by word finds names and addresses that are nearly there.
#
# In scanned and typed texts letters are misread, words are split or joined, and other words stand
# in between. A wrong value, in contrast, has another word. So every word of the value must stand in
# its place with every figure right, and only few letters may differ, in each word and in all of
# them.


MAX_WORDS = 200
"""Values of more words than this are only looked for as they stand."""

MAX_LETTERS = 64
"""Longer words must be equal, because no name and no misread word has so many letters."""

_SHARE_OFF = 0.1
"""The part of a value's letters that may differ in all. From 7 letters on, one always may."""
_GAP_COST = 0.5
"""How many differing letters a word in between counts as."""
_PLACES = 40
"""A word that stands more often than this in a text says nothing about where to look."""
_WINDOWS = 3
_COMPARED = 2_000
"""Words of a text that are compared with one of the value in one call: about 0.2 ms."""
_UNITS_OF_STATE = 15
"""Work of looking where the next word of a value is, for each place where it may be."""
_JOINED = 3
"""Into how many words a text may split one word of the value, and the other way round."""
_LINKS = frozenset(("the", "of", "and", "an"))
"""Words that may be missing."""
_LABELS = frozenset(("version", "ver", "v", "no", "nr", "number", "license", "licence"))
"""Words that only name what follows. Any number of them may stand in between, as in ``Apache
License, Version 2.0`` for ``Apache-2.0``."""
_LOOKALIKES = str.maketrans("oqdciltjsbzgxvh", "000011115826kun")
"""For each letter that scanners confuse with others or with a figure, one of its family."""
_LIKE_FIGURES = str.maketrans("oqdilsbzg", "000115826")


class Words:
    """The folded words of a text."""

    __slots__ = ("_places", "words")

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self._places: dict[str, list[int]] | None = None

    @property
    def places(self) -> Mapping[str, Sequence[int]]:
        """Where each word stands; found once, for all values that are looked for in the text."""
        places = self._places
        if places is None:
            places = {}
            for place, word in paced(enumerate(self.words)):
                places.setdefault(word, []).append(place)
            self._places = places
        return places


_Alignment = tuple[float, int, int]
"""The cheapest alignment up to a word: its cost, differing letters, and words in between."""


def aligned(value: Sequence[str], text: Words, budget: WorkBudget) -> bool:
    """Return whether a text has the folded words of a value in order, each nearly as it is."""
    if not value or len(value) > MAX_WORDS:
        return False
    letters = sum(map(len, value))
    allowed = max(int(letters * _SHARE_OFF), 1 if letters >= 7 else 0)
    least = len(value) - allowed - len(value) // 3 - 1
    return any(
        _fits(value, window, allowed, least, budget) for window in _windows(value, text, budget)
    )


def _windows(value: Sequence[str], text: Words, budget: WorkBudget) -> Iterator[Sequence[str]]:
    """Yield the stretches of a text that have most words of a value in their places."""
    slack = len(value) // 2 + 2
    votes: Counter[int] = Counter()
    for index, word in enumerate(value):
        places = text.places.get(word, ())
        if len(places) <= _PLACES:
            votes.update((place - index) // slack for place in places)
    if not votes:
        votes.update(place // slack for place in _nearly(value, text, budget))
    for bucket, _ in votes.most_common(_WINDOWS):
        start = max((bucket - 1) * slack, 0)
        yield text.words[start : (bucket + 3) * slack + len(value)]


def _nearly(value: Sequence[str], text: Words, budget: WorkBudget) -> Iterator[int]:
    """Find where a value may begin in a text that has none of its words exactly."""
    with loading:
        from rapidfuzz import process
        from rapidfuzz.distance import OSA

    index = max(range(len(value)), key=lambda place: len(value[place]))
    if len(value[index]) > MAX_LETTERS:
        return
    different = tuple(text.places)
    budget.spend(len(different))
    close: list[tuple[str, int, int]] = []
    for first in range(0, len(different), _COMPARED):
        close += process.extract(
            value[index],
            different[first : first + _COMPARED],
            scorer=OSA.distance,
            score_cutoff=_may_be_off(value[index]),
            limit=_WINDOWS,
        )
        pause()
    for word, _, _ in sorted(close, key=itemgetter(1))[:_WINDOWS]:
        yield from (place - index for place in text.places[word][:_PLACES])


def _fits(  # noqa: C901 - one loop, and the hot one
    value: Sequence[str], window: Sequence[str], allowed: int, least: int, budget: WorkBudget
) -> bool:
    """Return whether a stretch of a text has every word of a value, in order.

    ``rows[i][j]`` is the cheapest way to find the first ``i`` words before place ``j``.
    """
    with loading:
        from rapidfuzz.distance import LCSseq

    budget.spend(100 + 5 * len(value) + len(window))
    if least > 0 and LCSseq.similarity(value, window) < least:
        return False  # misread and joined words cannot explain so many missing ones
    rows: list[dict[int, _Alignment]] = [{} for _ in range(len(value) + 1)]
    rows[0] = dict.fromkeys(range(len(window)), (0.0, 0, 0))
    most_between = len(value) // 2
    sizes = [*map(len, window), 0, 0]
    twos = list(map(add, sizes, sizes[1:]))
    threes = list(map(add, twos, sizes[2:]))
    for index, word in enumerate(value):
        states = rows[index]
        if not states and not rows[index + 1]:
            return False
        if word in _LINKS and 0 < index < len(value) - 1:
            _leave_out(states, rows[index + 2], value[index + 1], window)
        if index:
            _skip_words(states, window, most_between)
        budget.spend(_UNITS_OF_STATE * len(states))  # with those of words in between
        letters_off: dict[str, int | None] = {}
        size = len(word)
        pair = size + len(value[index + 1]) if index + 1 < len(value) else 0
        for place, (cost, off_before, between) in states.items():
            if place >= len(window):
                continue
            there = window[place]
            if there not in letters_off:
                letters_off[there] = _letters_off(word, there)
            if not (
                letters_off[there] is not None
                or -1 <= twos[place] - size <= 1
                or -1 <= threes[place] - size <= 1
                or -1 <= sizes[place] - pair <= 1
            ):
                continue
            for used, taken, off in _steps(value, index, window, place, letters_off):
                if off_before + off <= allowed:
                    after = (cost + off, off_before + off, between)
                    _keep(rows[index + used], place + taken, after)
    return bool(rows[-1])


def _leave_out(
    states: dict[int, _Alignment], row: dict[int, _Alignment], following: str, window: Sequence[str]
) -> None:
    """Let a linking word be missing where the words around it stand side by side."""
    for place, state in states.items():
        if place < len(window) and window[place] == following:
            _keep(row, place + 1, state)


def _skip_words(states: dict[int, _Alignment], window: Sequence[str], most: int) -> None:
    """Let words of the text stand between two of the value."""
    end = len(window)
    for place in range(min(states, default=end), end):
        state = states.get(place)
        if state is None:
            continue
        cost, off, between = state
        between += window[place] not in _LABELS
        if between <= most:
            _keep(states, place + 1, (cost + _GAP_COST, off, between))


def _keep(row: dict[int, _Alignment], place: int, state: _Alignment) -> None:
    known = row.get(place)
    if known is None or state[0] < known[0]:
        row[place] = state


def _steps(
    value: Sequence[str],
    index: int,
    window: Sequence[str],
    place: int,
    letters_off: Mapping[str, int | None],
) -> Iterator[tuple[int, int, int]]:
    """Yield how many words of value and text match together, and how many letters differ.

    ``letters_off`` holds how the word of the text at this place differs from that of the value.
    """
    if place >= len(window):
        return
    word, word_there = value[index], window[place]
    off = letters_off[word_there]
    if off is not None:
        yield 1, 1, off
        if off == 0:
            return
    size = len(word_there)
    for end in range(place + 2, min(place + _JOINED, len(window)) + 1):
        size += len(window[end - 1])
        if size - len(word) > 1:
            break
        off = _joined_off(word, window[place:end])
        if off is not None:
            yield 1, end - place, off
    if index + 1 < len(value) and abs(len(word) + len(value[index + 1]) - len(word_there)) <= 1:
        off = _joined_off(word_there, value[index : index + 2])
        if off is not None:
            yield 2, 1, off


def _letters_off(word: str, other: str) -> int | None:  # noqa: PLR0911
    """Count the letters in which two words differ, or return ``None`` for different words.

    Figures must be right; words of up to 3 letters may differ by letters that look alike.
    """
    if word == other:
        return 0
    if abs(len(word) - len(other)) > 3 or len(word) > MAX_LETTERS:
        return None
    if _has_figure(word) or _has_figure(other):
        alike = len(word) >= 3 and word.translate(_LIKE_FIGURES) == other.translate(_LIKE_FIGURES)
        return 1 if alike else None
    if len(word) < 4:
        alike = len(word) >= 2 and word.translate(_LOOKALIKES) == other.translate(_LOOKALIKES)
        return 1 if alike else None
    if word == other + "s" or other == word + "s":
        return 0
    with loading:
        from rapidfuzz.distance import OSA

    most = _may_be_off(word)
    off = OSA.distance(word, other, score_cutoff=most)
    if off > 1 and word[0].translate(_LOOKALIKES) != other[0].translate(_LOOKALIKES):
        return None  # northern and southern are two words, whatever their length
    return off if off <= most else None


def _joined_off(word: str, parts: Sequence[str]) -> int | None:
    """Count the letters in which a word differs from several that are joined; one may."""
    joined = "".join(parts)
    if not 4 <= len(word) <= MAX_LETTERS or abs(len(word) - len(joined)) > 1:
        return None
    if word == joined:
        return 0
    if len(min(parts, key=len)) < 2 or _has_figure(word) or _has_figure(joined):
        return None
    with loading:
        from rapidfuzz.distance import OSA

    return 1 if OSA.distance(word, joined, score_cutoff=1) == 1 else None


def _has_figure(word: str) -> bool:
    return not word.isalpha() and any(map(str.isdigit, word))


def _may_be_off(word: str) -> int:
    return 1 if len(word) < 7 else 2 if len(word) < 10 else 3
