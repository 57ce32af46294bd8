"""Reading extraction records: values, the passages they came from, and their rivals.

An extraction goes wrong in its own way: the value is copied faithfully, from the right document,
and answers another question (the subtotal instead of the total). What tells the two apart is what
stands around the value and around every other value of its kind. This module reads that and
judges nothing: `llmeval_sdk.heuristics.extraction` makes scores of it, and the judge
``extraction_correctness`` shows the rivals to its model.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from math import fsum
from typing import Any, NamedTuple

from llmeval_sdk.model import Record
from llmeval_sdk.model.chat import bounded_question, is_answer
from llmeval_sdk.model.documents import sources_of
from llmeval_sdk.text.amounts import MEASURES, Amount, Date, only_amounts, only_date
from llmeval_sdk.text.budget import TooLargeError
from llmeval_sdk.text.folding import fold, plain
from llmeval_sdk.text.labels import (
    GROUP_OF,
    VAGUE,
    Label,
    concept_of,
    label_of_column,
    labels_in,
    nearest_label,
)
from llmeval_sdk.text.locales import coded
from llmeval_sdk.text.support import BOOLEANS, MAX_CODE, EvidenceText, Span, find, rounded


MAX_CHARACTERS = 1_000
"""Of a value; what follows is not compared."""
MAX_ITEMS = 50
"""Of a list or mapping, on each level."""
MAX_DEPTH = 6

_NOTHING = re.compile(
    r"\W*(?:none|null|nil|nan|n/?a|unknown|missing|empty|not (?:found|available|applicable|stated"
    r"|specified|given|mentioned|provided|present)(?: (?:in|by) .{1,80})?|no (?:value|answer|data"
    r"|information|match|[\w ]{1,30} (?:found|available|given|stated))(?: available)?)\W*",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"""\W*(?:
    sorry,
    | (?:i'm|i\ am|we're|we\ are)\ (?:sorry|unable|not\ able)\b
    | (?:unable\ to|could\ not|couldn't|cannot|can't)\ (?:be\ )?
      (?:find|found|determin|locate|extract|answer|identif)
    | (?:i|we)\ (?:can|could|do|did)(?:\ ?not|n't)
      \ (?:find|determine|locate|extract|answer|identify|know|see)\b
    | there\ (?:is|are|was|were)\ no\b
    | (?:the|this)\ .{0,60}?\b(?:is|are|was|were|do|does|did|could|can)(?:\ ?not|n't)
      \ (?:be\ )?(?:found|contain|mention|state|specif|provid|give|availab|say|includ|present|list)
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_MAX_REFUSAL = 160
"""Characters; a longer text that begins like a refusal is a clause of a document."""
_NUMBER = re.compile(r"[^\d\s+-]{0,3} ?([+-]?\d[\d.,']{0,30})(?: ?[^\d\s]{0,3})")
_NOT_WORD = re.compile(r"[\W_]+")
_SHORT = 80
"""Characters of a value whose reading is kept."""
_CONTAINERS = (list, tuple, set, frozenset)


def abstained(value: object) -> bool:
    """Say whether a value is no answer: absent, empty, or words that say there is none.

    ``0`` and ``False`` are values. A list or mapping abstains if everything in it does.
    """
    if value is None or (isinstance(value, float) and not is_answer(value)):
        return True
    if isinstance(value, str):
        is_plain = type(value) is str and len(value) <= _SHORT
        return _short_abstained(value) if is_plain else _abstained(value)
    if isinstance(value, (Mapping, *_CONTAINERS)):
        return all(abstained(item) for item in items(value))
    return False


def _abstained(value: str) -> bool:
    text = value[: _MAX_REFUSAL + 1].replace("\u2019", "'").strip()
    if not text.strip("-\u2013\u2014./?\u2026 "):
        return not value.strip("-\u2013\u2014./?\u2026 \t\r\n")
    is_short = len(text) <= _MAX_REFUSAL
    return is_short and bool(_NOTHING.fullmatch(text) or _REFUSAL.match(text))


_short_abstained = lru_cache(1024)(_abstained)


def items(value: object, depth: int = 0) -> Iterator[Any]:
    """Yield the single values in a value, at most `MAX_ITEMS` on each level."""
    if isinstance(value, Mapping):
        value = tuple(islice(value.values(), MAX_ITEMS))
    if not isinstance(value, _CONTAINERS):
        yield value
    elif depth < MAX_DEPTH:
        for item in islice(value, MAX_ITEMS):
            yield from items(item, depth + 1)


def text_of(value: object) -> str:
    """Write a value as text; the items of a list or mapping stand side by side."""
    if isinstance(value, str):
        return value[:MAX_CHARACTERS].strip()
    if value is None:
        return ""
    if isinstance(value, (Mapping, *_CONTAINERS)):
        parts = (text_of(item) for item in islice(items(value), MAX_ITEMS))
        return " ".join(filter(None, parts))[:MAX_CHARACTERS]
    try:
        shown = value.isoformat() if hasattr(value, "isoformat") else value
        return str(shown)[:MAX_CHARACTERS].strip()
    except Exception:  # a value with a broken __str__, or an int of ten thousand digits
        return ""


def normal(value: object) -> str:
    """Bring a value to a form in which its spellings are equal.

    Case, punctuation and spacing do not matter, and a number keeps its value whatever its currency
    and separators are: ``RM 1,234.50`` and ``1234.5`` are equal. So are ``1 March 2026`` and
    ``2026-03-01``, and ``Germany`` and ``DE``. A date that may be two days keeps its figures.
    """
    text = text_of(value)
    is_plain = type(text) is str and len(text) <= _SHORT
    return _short_normal(text) if is_plain else _normal(text)


def _normal(text: str) -> str:
    lowered = text.casefold()
    amount = _NUMBER.fullmatch(lowered) if len(text) <= 40 else None
    number = _number(amount[1]) if amount is not None else None
    if number is not None:
        return number
    typed = _typed_form(text) if len(text) <= _SHORT else None
    return typed or plain_form(text)


def plain_form(text: str) -> str:
    """Write what is no value of a kind in a form without case, punctuation and wide spaces."""
    lowered = text.casefold()
    return _NOT_WORD.sub(" ", lowered).strip() or lowered


def form_of_date(date: Date) -> str:
    """Write a date as ``2026-03-01``; a year or day that is left open has no figures."""
    year, month, day, _ = date
    return f"{year or 0:04}-{month:02}-{day or 0:02}"


def form_of_amount(amount: Amount) -> str | None:
    """Write an amount by its number and what it measures; ``None`` if it may be two numbers."""
    if len(amount.readings) != 1:
        return None
    measure, size = MEASURES[amount.unit] if amount.unit else ("", 1.0)
    sign = "-" if amount.negative else ""
    number = rounded(amount.readings[0] * size)
    return f"{sign}{number:.12g}{'' if measure == 'percent' else measure}"


def _typed_form(text: str) -> str | None:
    """Write a date, an amount or a code in its normal form; ``None`` for anything else."""
    lowered = plain(text)
    if any(map(str.isdecimal, text)):
        readings, time = only_date(lowered)
        if len(readings) == 1 and time is None:
            return form_of_date(readings[0])
        amounts = () if readings else only_amounts(lowered)
        if len(amounts) == 1 and (form := form_of_amount(amounts[0])) is not None:
            return form
    meanings = coded(text, fold(text))
    return f"{meanings[0].kind} {meanings[0].code.lower()}" if meanings else None


_short_normal = lru_cache(2048)(_normal)
"""One value is compared with every extraction and every rival of its record, by several scores."""


def _number(figures: str) -> str | None:
    """Read figures; ``None`` for what only looks like a number, such as ``1.2.3``.

    A mark before three digits groups thousands unless it is the only one and a point: ``1,234`` is
    1234 and ``1.234`` is not.
    """
    figures = figures.replace("'", "")
    mark = max(figures.rfind("."), figures.rfind(","))
    whole, part = (figures, "") if mark < 0 else (figures[:mark], figures[mark + 1 :])
    if mark >= 0 and figures[mark] == "," and len(part) == 3:
        whole, part = figures, ""
    elif mark >= 0 and figures[mark] in whole:
        return None
    digits = whole.replace(",", "").replace(".", "").lstrip("+")
    if not digits.lstrip("-").isdecimal() or (part and not part.isdecimal()):
        return None
    return f"{digits.lstrip('0') or '0'}.{part.rstrip('0')}".rstrip(".")


# The words that announce a field: "total" before an amount, "expires" beside a date.


MAX_CUES = 24
_MAX_CUE_TEXT = 600
NAME, DESCRIPTION, REQUEST = 1.0, 0.6, 0.4
"""What a cue is worth by where it was read: the field's own name says most."""

_WORD = re.compile(r"[^\W\d_]{2,}")
_JOINT = re.compile(r"(?<=[a-z])(?=[A-Z])|_")
_ENDINGS = ("ations", "ation", "ing", "ies", "ied", "ers", "ed", "er", "es", "s", "e", "y")
_STOP_WORDS = """
a an and any are as at be been by can did do does document documents every field for
from give given has have how if in into is it its may must name of on one or other out
page passage please return should such than that the their them then there these they
this those to value was were what when where which who whom whose why will with word
words would you your all each exact extract extracted find first get look most not only
per text tell use used using within under about after before between during also both
"""
_STOP = frozenset(_STOP_WORDS.split())


def cues(config: object, request: object) -> tuple[tuple[str, float], ...]:
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


@lru_cache(512)
def _read_cues(name: str, description: str, request: str) -> tuple[tuple[str, float], ...]:
    worth: dict[str, float] = {}
    sources = ((_JOINT.sub(" ", name), NAME), (description, DESCRIPTION), (request, REQUEST))
    for text, weight in sources:
        for word in _WORD.findall(text.lower()):
            if word not in _STOP and len(worth) < MAX_CUES:
                worth.setdefault(_stem(word), weight)
    return tuple(worth.items())


def _stem(word: str) -> str:
    """Cut a word to the beginning that its inflections share."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


# A Record's passages searched once: where a value stands, its rivals, and the cues beside both.


# The passages of a Record as one text, bounded, with a way back to the chunk of every place.

MAX_TEXT = 40_000
"""Characters of all passages together; where there are more, the cited ones come first."""
MAX_PASSAGE = 10_000
MAX_CHUNKS = 500
MAX_QUOTES = 20
_GAP = "\n\n"
_SHOWN = 200


class PossibleValue(NamedTuple):
    """Something in the text that could be a value."""

    start: int
    end: int
    value: str
    """As written, without the marks at its edges."""
    form: str
    """Its normal form; empty where nothing is left of it."""


@dataclass(frozen=True, slots=True)
class Passages:
    """The retrieved passages, and what extractions quote from elsewhere."""

    text: str
    lowered: str
    """The same in lower case, character for character."""
    starts: tuple[int, ...]
    numbers: tuple[int, ...]
    """The 1-based chunk number of each passage; 0 for quoted evidence."""
    cut: bool
    """Whether there was more than is read."""
    kept: dict[str, tuple[PossibleValue, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Kind -> everything of that kind in the text, where that was asked for before."""
    _evidence: list[EvidenceText] = field(default_factory=list, compare=False, repr=False)

    _labels: dict[str | None, list[Label]] = field(default_factory=dict, compare=False, repr=False)

    def labels(self, group: str | None = None) -> list[Label]:
        """Return the labels of a group of concepts, or of all, by their places in the text."""
        if group not in self._labels:
            evidence = self.evidence
            self._labels[group] = [
                Label(*evidence.original(label.start, label.end), label.concept)
                for label in labels_in(evidence.plain, group)
            ]
        return self._labels[group]

    @property
    def evidence(self) -> EvidenceText:
        """The text as the scores of groundedness search it, made when it is first needed."""
        if not self._evidence:
            self._evidence.append(EvidenceText(self.text))
        return self._evidence[0]

    def number_at(self, place: int) -> int:
        """Return the chunk number of a place in the text; 0 in quoted evidence."""
        return self.numbers[max(0, bisect_right(self.starts, place) - 1)] if self.starts else 0

    def line_at(self, start: int, end: int) -> str:
        """Return the line or lines around a place, at most 200 characters."""
        first = max(self.text.rfind("\n", 0, start) + 1, start - _SHOWN // 2)
        last = self.text.find("\n", end)
        stop = min(last if last >= 0 else len(self.text), end + _SHOWN // 2)
        return self.text[first:stop].strip()[:_SHOWN]

    def shown(self, value: str, start: int, end: int) -> dict[str, Any]:
        """Describe a value at a place for people, judges and metadata."""
        return {
            "value": value[:_SHOWN],
            "chunk_number": self.number_at(start) or None,
            "evidence": self.line_at(start, end),
        }

    def in_chunk(self, start: int, end: int) -> tuple[int, int]:
        """Return where a place begins and ends in its own passage."""
        offset = self.starts[max(0, bisect_right(self.starts, start) - 1)] if self.starts else 0
        return start - offset, end - offset


def passages_of(record: Record, documents: Collection[str] = ()) -> Passages:
    """Join what a record retrieved and what its extractions quote beyond that, without repeats.

    ``documents`` are the addresses of the only documents that are joined; none stands for all.
    """
    chunks = [
        (number, chunk.content)
        for number, chunk in enumerate((sources_of(record) or ())[:MAX_CHUNKS], start=1)
        if isinstance(chunk.content, str)
        and chunk.content.strip()
        and (not documents or chunk.doc_uri in documents)
    ]
    extractions = (record.extractions or ())[:MAX_CHUNKS]
    if sum(len(content) for _, content in chunks) > MAX_TEXT:
        cited = {e.chunk_number for e in extractions if isinstance(e.chunk_number, int)}
        chunks.sort(key=lambda chunk: (chunk[0] not in cited, chunk[0]))
    contents = [content for _, content in chunks]
    for extraction in extractions[:MAX_QUOTES]:
        quote = extraction.evidence
        if isinstance(quote, str) and quote.strip() and not _stands_in(quote, contents):
            contents.append(quote)
            chunks.append((0, quote))
    return _join(tuple((number, content[: MAX_PASSAGE + 1]) for number, content in chunks))


def _stands_in(quote: str, contents: list[str]) -> bool:
    """Say whether a quote is a part of one of the texts, line breaks and spaces aside."""
    quote = quote[:MAX_PASSAGE]
    if any(quote in content for content in contents):
        return True
    plain = " ".join(quote.split())
    return any(plain in " ".join(content[:MAX_PASSAGE].split()) for content in contents)


@lru_cache(32)  # every field of a document asks about the same passages; at most 4 MB of text
def _join(chunks: tuple[tuple[int, str], ...]) -> Passages:
    numbers: dict[str, int] = {}
    for number, content in chunks:
        numbers.setdefault(content[:MAX_PASSAGE], number)
    parts: list[str] = []
    starts: list[int] = []
    size = 0
    for content in numbers:
        if size >= MAX_TEXT:
            break
        starts.append(size)
        parts.append(content[: MAX_TEXT - size])
        size += len(parts[-1]) + len(_GAP)
    text = _GAP.join(parts)
    cut = sum(map(len, parts)) < sum(map(len, numbers)) or any(
        len(content) > MAX_PASSAGE for _, content in chunks
    )
    return Passages(text, lower(text), tuple(starts), tuple(numbers.values())[: len(parts)], cut)


def lower(text: str) -> str:
    """Lower a text without moving anything in it."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)


BEFORE, AFTER = 120, 90
"""Characters before and after a value in which a cue counts. Measured: 60 to 160 hardly differ."""
# Where cue words stand in a text, and how much they speak for a place in it.

MAX_PLACES = 200
"""Of one cue."""
_AFTER_WEIGHT = 0.6
_OTHER_LINE = tuple(0.75**lines for lines in range(5))
"""For each number of line breaks between a cue and the value; more than four count as four."""
_MAX_CUE = 30


class Marks(NamedTuple):
    """The cues of a field in one text, in the order of their places."""

    lowered: str
    starts: list[int]
    ends: list[int]
    which: list[int]
    weights: list[float]
    """Of each cue: what it is worth, less where it stands everywhere."""

    @classmethod
    def of(cls, lowered: str, cues: Iterable[tuple[str, float]]) -> Marks:
        """Find cues, each a stem and what it is worth, in a lower-case text."""
        marks: list[tuple[int, int, int]] = []
        weights: list[float] = []
        for stem, worth in cues:
            places = _places(lowered, stem)
            if places:
                marks += [(place, place + len(stem), len(weights)) for place in places]
                weights.append(worth / len(places) ** 0.25)
        marks.sort()
        return cls(
            lowered, [m[0] for m in marks], [m[1] for m in marks], [m[2] for m in marks], weights
        )

    def near(self, start: int, end: int) -> float:
        """Say how much the cues speak for a place, as the sum over the nearest of each."""
        starts = self.starts
        low = bisect_left(starts, start - BEFORE - _MAX_CUE)
        if low == len(starts) or starts[low] > end + AFTER:  # no cue is near: the usual case
            return 0.0
        return fsum([near for near, _ in self._nearest(start, end).values()])

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
        lowered, starts, ends, cues, weights = self
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


# What kind of thing a value is, and everything of that kind in a text: the possible rivals.

MAX_CANDIDATES = 300
"""Of one kind in one record; a text is not searched for more."""
FREE_FORM = ("name", "line", "text")
"""Kinds that nothing about a value itself can check."""

# Each pattern begins with a set of characters and looks back from behind it, so that the engine
# skips to the next one of the set: five times as fast as a look-behind at the beginning.
_ENDS = r"(?![\d.,]*\d)"
_GROUP = "[., '\u2019\u00a0\u202f]"
_SIGNS = "$€£¥₹₩₽₺฿₫₪₴₦₱"
_CURRENCY = (
    rf"(?:[{_SIGNS}円元원]|(?:eur|usd|gbp|chf|jpy|cny|inr|krw|pln|czk|huf|sek|nok|dkk|ron|try|rub|uah"
    r"|idr|vnd|thb|myr|sgd|aud|cad|brl|mxn|zł|kč|kr|ft|lei|лв|руб|грн|tl|rp|rs|rm)(?![^\W\d_]))"
)
_GROUPS = rf"(?:{_GROUP}?\d{{3}}|,\d{{2}}(?=,)){{0,6}}"
_FIGURES = rf"\d(?<![\d.,]\d)\d{{0,2}}{_GROUPS}(?:[.,]\d{{1,2}})?"
_PATTERNS = {
    "email": (r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,5}",),
    "url": (r"https?://[^\s<>\"'`)\]]{3,200}", r"www\.[^\s<>\"'`)\]]{3,200}"),
    "date": (r"\d(?<![\d/.-]\d)\d{0,3}([-/.])\d{1,2}\1\d{2,4}(?!\d)",),
    "year": (r"[12](?<![\d.,/-].)(?:[0-9])\d\d(?![\d.,/-]*\d)",),
    "money": (
        rf"\d(?<![\d.,]\d)\d{{0,2}}{_GROUPS}[.,]\d{{2}}{_ENDS}",
        rf"{_FIGURES}[ \u00a0\u202f]?{_CURRENCY}",
        rf"[{_SIGNS}] ?{_FIGURES}{_ENDS}",
    ),
    "percent": (r"\d(?<![\d.,]\d)\d{0,3}(?:[.,]\d{1,4})?[ \u00a0\u202f]?%",),
    "version": (
        r"\d(?<![\d.]\d)\d{0,3}\.\d{1,4}(?:\.\d{1,4}){0,4}(?:[a-z]{1,3}\d{0,3})?(?![\d.]*\d)",
    ),
    "number": (rf"\d(?<![\d.,]\d)(?:\d{{0,2}}(?:[, ]\d{{3}}){{1,6}}|\d*)(?:[.,]\d+)?{_ENDS}",),
    "code": (
        r"[a-z\d](?<![\w-].)(?=[a-z/-]{0,12}\d|(?<=\d))[a-z\d/-]{3,30}(?![\w-])",
        r"[a-z](?<![\w-].)[a-z]\d\d(?: [a-z\d]{2,4}){3,8}(?![\w-])",
    ),
}
_COMPILED = {kind: tuple(map(re.compile, patterns)) for kind, patterns in _PATTERNS.items()}
_ASCII = {  # a fixed first set is found a quarter faster than the digits of all scripts
    kind: tuple(re.compile(re.sub(r"^\\d", "[0-9]", pattern)) for pattern in patterns)
    for kind, patterns in _PATTERNS.items()
}
_NAME = re.compile(  # the only kind that capitals make
    r"[^\W\d_a-z](?<![^\W_].)[\w&.'’-]{0,30}"
    r"(?:[ ,]{1,2}(?:of|the|and|de|van|von|der|&|\(?[^\W_a-z][\w&.'’)-]{0,30})){0,7}"
)
_LINE = re.compile(r"[^\n]{3,160}")
_SENTENCE = re.compile(r"[^\n.!?]{20,400}[.!?]?")
_AROUND = re.compile(r"[^\w]{0,4}(?:(?:v|[A-Za-z]{1,3} ?(?!\d{9}))|[$€£¥₹] ?)?")
_WHOLE = ("email", "url", "code")
_MAX_LINE, _MAX_WORDS = 120, 15


def kind_of(value: str) -> str:
    """Name the kind of a value, from the strictest that fits all of it.

    ``email url date year money percent version number code quantity boolean country currency
    language licence``, else ``name`` (capitalised words), ``line`` or, where it is longer than a
    line, ``text``.
    """
    text = value.strip()
    is_plain = type(text) is str and len(text) <= _SHORT
    return _short_kind(text) if is_plain else _kind(text)


def _kind(text: str) -> str:
    lowered = text.lower()
    if len(text) <= _MAX_LINE:
        around = _AROUND.match(lowered)
        bare = lowered[around.end() :] if around is not None else lowered
        for kind, patterns in _COMPILED.items():
            for candidate in (lowered,) if kind in _WHOLE else (lowered, bare):
                end = len(candidate.rstrip(" .,;:)"))
                for pattern in patterns:
                    match = pattern.match(candidate)
                    if match is not None and match.end() >= end > 0:
                        meant = coded(text, fold(text)) if kind == "code" else ()
                        return meant[0].kind if meant else kind
    typed = _typed_kind(text) if len(text) <= _SHORT else None
    if typed is not None:
        return typed
    if not text or len(text) > _MAX_LINE or text.count(" ") >= _MAX_WORDS:
        return "text"
    match = _NAME.match(text)
    return "name" if match is not None and match.end() >= len(text) - 2 else "line"


_short_kind = lru_cache(2048)(_kind)


def _typed_kind(text: str) -> str | None:
    """Name the kind of what other languages, units and lists of codes make a value of a kind."""
    lowered = plain(text)
    is_code = len(text) <= MAX_CODE and text.isupper()  # Norway is no "no"
    if lowered in BOOLEANS and not is_code:
        return "boolean"
    if any(map(str.isdecimal, text)):
        if only_date(lowered)[0]:
            return "date"
        amounts = only_amounts(lowered)
        if amounts:
            unit = amounts[0].unit
            is_percent = unit is not None and MEASURES[unit][0] == "percent"
            kind = "money" if amounts[0].currencies else "number"
            return "percent" if is_percent else "quantity" if unit else kind
    meanings = coded(text, fold(text))
    return meanings[0].kind if meanings else None


def candidates(kind: str, passages: Passages) -> Iterator[tuple[int, int]]:
    """Yield where something of a kind stands, at most `MAX_CANDIDATES` times.

    A ``line`` is a whole line, ``text`` a sentence. Of booleans and codes there are no candidates.
    """
    yield from islice(_candidates(kind, passages), MAX_CANDIDATES)


def _candidates(kind: str, passages: Passages) -> Iterator[tuple[int, int]]:
    if kind in _READ:
        yield from (value[:2] for value in _read_values(kind, passages))
    elif kind in _COMPILED:
        for pattern in (_ASCII if passages.lowered.isascii() else _COMPILED)[kind]:
            match = None
            for match in pattern.finditer(passages.lowered):
                yield match.span()
            if match is not None and kind == "money":
                break  # a document writes its amounts in one of the ways
    elif kind in FREE_FORM:
        pattern = _NAME if kind == "name" else _LINE if kind == "line" else _SENTENCE
        yield from (match.span() for match in pattern.finditer(passages.text))


_READ = ("date", "quantity")
"""Kinds of which everything in a text is read, and not only looked for."""


def _read_values(kind: str, passages: Passages) -> Iterator[PossibleValue]:
    """Yield the dates or quantities of the passages with their normal forms."""
    evidence, text = passages.evidence, passages.text
    with suppress(TooLargeError):
        if kind == "date":
            readings: dict[Span, list[Date]] = {}
            for date, span in evidence.dates:
                if date.day:
                    readings.setdefault(span, []).append(date)
            for span, dates in readings.items():
                value = text[slice(*span)]
                form = form_of_date(dates[0]) if len(dates) == 1 else plain_form(value)
                yield PossibleValue(*span, value, form)
        else:
            for amount in {id(a): a for many in evidence.amounts.values() for a in many}.values():
                if amount.unit:
                    span = evidence.span_of_amount(amount)
                    value = text[slice(*span)]
                    yield PossibleValue(*span, value, form_of_amount(amount) or plain_form(value))


MAX_VALUES = 10
"""Items of a list or table that are read; the metadata of a score says when there were more."""
MAX_OCCURRENCES = 20
MAX_SHOWN = 5
_EDGES = " ,.;:'\"()"


class Rival(NamedTuple):
    """Another value of the same kind, at the place that cues speak for most."""

    value: str
    start: int
    end: int
    cue: float
    times: int
    """How often it stands in the passages."""
    label: Label | None = None
    """The label that names the field, if this value stands under it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What stands in the passages about one value."""

    value: str
    form: str
    """The value's normal form."""
    kind: str
    passages: Passages
    marks: Marks
    spans: tuple[tuple[int, int], ...]
    """Where the value stands."""
    best: tuple[int, int] | None
    """The place among them that cues speak for most."""
    cue: float
    """How much they do: 0 for not at all, about 1 for the field's name right before it."""
    rivals: tuple[Rival, ...]
    """Other values of its kind, the one that cues speak for most first."""
    is_checked: bool = True
    """Whether the value was looked for at all."""
    concept: str | None = None
    """What the field asks for, as labels of documents name it."""
    label: Label | None = None
    """The label that the value stands under, of those that name values of its kind."""
    is_labelled: bool = False
    """Whether the passages have a label that names the field."""

    @property
    def stands_under_own(self) -> bool:
        """Whether the value stands under a label that names its field."""
        return self.label is not None and self.label.concept == self.concept

    def shown(self, rival: Rival) -> dict[str, Any]:
        """Describe a rival as `Passages.shown` does."""
        return self.passages.shown(rival.value, rival.start, rival.end)


def value_of(record: Record) -> Any:
    """Return what the app settled on: the record's value, or its response where it has none."""
    return record.value if record.value is not None else record.response


def values_of(record: Record) -> list[Any]:
    """Return the single values in a record's value that are an answer, one more than are read."""
    answers = (item for item in items(value_of(record)) if not abstained(item))
    return list(islice(answers, MAX_VALUES + 1))


def read(
    record: Record,
    *,
    most: int = MAX_VALUES,
    with_rivals: bool = True,
    documents: Collection[str] = (),
) -> list[Reading]:
    """Read the single values of a record against its passages; empty where it has no value.

    ``most`` values are read. Without ``with_rivals`` nothing competes with them, which is cheaper.
    ``documents`` are the addresses of the only documents that are read; none stands for all.
    """
    values = [text for value in values_of(record)[:most] if (text := text_of(value))]
    passages = passages_of(record, documents)
    marks = Marks.of(passages.lowered, cues(record.field_config, record.request))
    forms = frozenset(map(normal, values))
    labels = _FieldLabels.of(record.field_config, passages)
    return [
        _read(value, forms, passages, marks, labels, with_rivals=with_rivals) for value in values
    ]


class _FieldLabels(NamedTuple):
    """The labels of passages that may name a field or one of its neighbours."""

    concept: str | None
    labels: list[Label]
    passages: Passages

    @classmethod
    def of(cls, config: object, passages: Passages) -> _FieldLabels:
        """Find the labels of the group of concepts that a field belongs to."""
        config = config if isinstance(config, Mapping) else {}
        name, description = config.get("name"), config.get("description")
        concept = concept_of(
            name if isinstance(name, str) else "",
            description if isinstance(description, str) else "",
        )
        labels: list[Label] = []
        if concept is not None:
            with suppress(TooLargeError):
                labels = passages.labels(GROUP_OF[concept])
        return cls(concept, labels, passages)

    def over(self, span: tuple[int, int], *, beside: bool = False) -> Label | None:
        """Return the label that a place stands under; ``beside`` looks on its own line only."""
        if not self.labels:
            return None
        text = self.passages.text
        label, how = next(nearest_label(self.labels, text, *span), (None, ""))
        if beside and how != "before":
            return None
        if label is None and not beside:
            label = label_of_column(self.passages.labels(), text, *span)
            if label is not None and GROUP_OF[label.concept] != GROUP_OF[self.concept or ""]:
                return None
        elif label is not None and label.concept in VAGUE and label.concept != self.concept:
            return None
        return label

    def own(self, span: tuple[int, int], *, beside: bool = False) -> Label | None:
        """Return the label that a place stands under if it names the field."""
        label = self.over(span, beside=beside)
        return label if label is not None and label.concept == self.concept else None

    @property
    def has_own(self) -> bool:
        """Whether a label names the field."""
        return any(label.concept == self.concept for label in self.labels)


def rivals(record: Record) -> list[dict[str, object]]:
    """Describe the values that compete with a record's value, the strongest first, at most five.

    Each has a ``value``, its ``chunk_number`` (``None`` in quoted evidence) and the ``evidence``
    around it.
    """
    every = [(reading, rival) for reading in read(record) for rival in reading.rivals[:MAX_SHOWN]]
    every.sort(key=lambda pair: -pair[1].cue)
    return [reading.shown(rival) for reading, rival in every[:MAX_SHOWN]]


def _read(
    value: str,
    forms: Collection[str],
    passages: Passages,
    marks: Marks,
    labels: _FieldLabels,
    *,
    with_rivals: bool,
) -> Reading:
    kind = kind_of(value)
    form = normal(value)
    places = _spans(value, passages)
    spans = places or ()
    own = [span for span in spans if labels.own(span) is not None]
    best, cue = marks.best(own or spans)
    label = labels.over(best) if best is not None else None
    opponents = _rivals(kind, spans, forms, passages, marks) if with_rivals else ()
    if labels.has_own and not own:
        opponents = _labelled(opponents, labels, beside=kind in FREE_FORM)
    return Reading(
        value, form, kind, passages, marks, spans, best, cue, opponents,
        places is not None, labels.concept, label, labels.has_own,
    )  # fmt: skip


def _labelled(
    rivals: tuple[Rival, ...], labels: _FieldLabels, *, beside: bool
) -> tuple[Rival, ...]:
    """Put the rivals first that stand under a label that names the field.

    Any capitalised word may be a name, so that of names only one ``beside`` the label counts.
    """
    marked = [
        rival._replace(label=labels.own((rival.start, rival.end), beside=beside))
        for rival in rivals
    ]
    return tuple(sorted(marked, key=lambda rival: rival.label is None))


def _spans(value: str, passages: Passages) -> tuple[tuple[int, int], ...] | None:
    """Find where a value stands: as written, else in another form of the same value.

    ``None`` says that nothing was looked for: there is no yes or no for a boolean, or the passages
    take too much work.
    """
    is_code = len(value) <= MAX_CODE and value.isupper()  # in small letters it may be any word
    spans = () if is_code else tuple(_as_written(lower(value), passages.lowered))
    if spans:
        return spans
    try:
        answer = find(value, passages.evidence, most=MAX_OCCURRENCES)
    except TooLargeError:
        return None
    return None if answer is None else answer.spans


def _as_written(lowered: str, text: str) -> Iterator[tuple[int, int]]:
    count, at = 0, text.find(lowered)
    while at >= 0 and count < MAX_OCCURRENCES:
        end = at + len(lowered)
        inside = lowered[0].isalnum() and text[at - 1 : at].isalnum()
        if not inside and not (lowered[-1].isalnum() and text[end : end + 1].isalnum()):
            count += 1
            yield at, end
        at = text.find(lowered, end)


def _rivals(
    kind: str,
    spans: tuple[tuple[int, int], ...],
    forms: Collection[str],
    passages: Passages,
    marks: Marks,
) -> tuple[Rival, ...]:
    """Collect the other values of a kind, each once, at the place that cues speak for most."""
    best: dict[str, tuple[float, PossibleValue]] = {}
    times: dict[str, int] = {}
    competes: dict[str, bool] = {}
    for candidate in _everything(kind, passages):
        start, end, _, form = candidate
        is_rival = competes.get(form)
        if is_rival is None:
            is_rival = competes[form] = _competes(form, kind, forms)
        if not is_rival:
            continue
        for begin, stop in spans:
            if start < stop and end > begin:
                break
        else:
            cue = marks.near(start, end)
            times[form] = times.get(form, 0) + 1
            if form not in best or cue > best[form][0]:
                best[form] = cue, candidate
    found = [Rival(c.value, c.start, c.end, cue, times[c.form]) for cue, c in best.values()]
    return tuple(sorted(found, key=lambda rival: (-rival.cue, rival.start)))


def _everything(kind: str, passages: Passages) -> tuple[PossibleValue, ...]:
    """Return everything of a kind in the passages, which the fields of one document share."""
    kept = passages.kept.get(kind)
    if kept is None:
        if kind in _READ:
            kept = tuple(islice(_read_values(kind, passages), MAX_CANDIDATES))
        else:
            form_of = plain_form if kind in FREE_FORM else normal
            values = (
                (*span, passages.text[slice(*span)].strip(_EDGES))
                for span in candidates(kind, passages)
            )
            kept = tuple(PossibleValue(*value, form_of(value[2])) for value in values)
        passages.kept[kind] = kept
    return kept


def _competes(form: str, kind: str, forms: Collection[str]) -> bool:
    """Say whether a candidate is another value: none of those given, nor a part of one."""
    if not form or form in forms:
        return False
    return kind not in ("name", "line") or not any(_is_part(form, other) for other in forms)


def _is_part(one: str, other: str) -> bool:
    """Say whether one of two names is a part of the other."""
    return f" {one} " in f" {other} " or f" {other} " in f" {one} "


# What a field's value could be, for a record that has none.


def best_candidate(
    record: Record, kinds: Sequence[str] = ()
) -> tuple[dict[str, Any] | None, float]:
    """Find the value of one of ``kinds`` that the field's cue words speak for most.

    Returns it as `rivals` describes values, and how much the cues speak for it. Without a kind, or
    where there is no such value, it is ``None`` with the share of the cues' worth that the passages
    hold.
    """
    passages = passages_of(record)
    words = cues(record.field_config, record.request)
    marks = Marks.of(passages.lowered, words)
    best: tuple[float, int, int] | None = None
    for kind in kinds:
        if kind in ("line", "text"):  # anything is one
            continue
        for start, end in candidates(kind, passages):
            cue = marks.near(start, end)
            if cue > 0 and (best is None or cue > best[0]):
                best = cue, start, end
    if best is None:
        worth = sum(weight for _, weight in words)
        return None, sum(marks.weights) / worth if worth else 0.0
    cue, start, end = best
    return passages.shown(passages.text[start:end], start, end), cue
