"""The usual labels of business documents, in many languages: which thing a label names.

"Zwischensumme", "sous-total" and "小計" name the same thing as a field called ``subtotal``, and a
different one from ``total``. The table says only that; it translates nothing else.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from llmeval_sdk.process.pieces import find_all, paced, pause, pieces
from llmeval_sdk.text.folding import plain


if TYPE_CHECKING:
    from llmeval_sdk.text.support import Span


GROUPS: Mapping[str, tuple[str, ...]] = {
    "amount": (
        "total", "subtotal", "tax", "discount", "shipping", "paid", "change", "unit_price",
        "line_total",
    ),
    "date": (
        "issue_date", "due_date", "delivery_date", "order_date", "agreement_date",
        "birth_date", "start_date", "end_date",
    ),
    "identifier": ("invoice_number", "order_number", "customer_number", "tax_id"),
    "party": ("seller", "buyer"),
    "count": ("quantity",),
}  # fmt: skip
"""Concepts that values of one kind have, so that one may stand in the place of another."""
VAGUE = frozenset(("line_total", "agreement_date"))
"""Concepts whose labels may stand before another value of their kind: "amount" before any amount,
and "entered into as of" before the day on which an agreement takes effect."""
GROUP_OF = {concept: group for group, concepts in GROUPS.items() for concept in concepts}

_FIELD_WORDS: Mapping[str, str] = {
    "total": "total; amount; gross; sum",
    "issue_date": "issue; issued; invoice date; date",
    "due_date": "due; deadline; payable",
    "invoice_number": "invoice number; invoice id; invoice no; document number",
    "seller": "vendor; seller; supplier; issuer; merchant; company; payee",
    "buyer": "customer; buyer; client; recipient; bill to; payer",
    "tax": "tax; vat",
}
"""Words of names of fields that no document has as a label."""
_GENERAL = frozenset(("date", "amount", "gross", "sum"))
"""Those of them that say little: a name may have few other words beside one of these."""
_USUAL = frozenset(
    ("bill", "currency", "document", "due", "eur", "gross", "in", "invoice", "of", "order",
     "payable", "receipt", "the", "usd", "value")
)  # fmt: skip
"""The words that it may have. The closing date is not the date of issue."""

# Labels stand in `data/labels.json` by concept, in plain form, without points and hyphens.

_JOINTS = str.maketrans(dict.fromkeys(".-_/#:º°'’", " "))
_WORD = re.compile(r"[^\W\d_]+|№")
_SIGNS = r"[\u0900-\u0903\u093a-\u094f]"
_SIGN = re.compile(_SIGNS)
"""The vowel signs of Hindi, which are no letters to the engine."""
_WORD_WITH_SIGNS = re.compile(rf"[^\W\d_]+(?:{_SIGNS}[^\W\d_]*)*")
_AT_ONCE = 8_000
"""Characters of which the words are gathered between two pauses."""
_MAX_LABELS = 2_000
_MAX_WORDS = 5


class Label(NamedTuple):
    """A label of a known concept in a text, by its place in plain form."""

    start: int
    end: int
    concept: str


class _Phrases:
    """The labels that begin with one word, longer ones first."""

    def __init__(self, first: str, concepts: Mapping[tuple[str, ...], str]) -> None:
        self._first = first
        self._words = sorted(concepts, key=len, reverse=True)
        self._concepts = [concepts[label] for label in self._words]

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """The word and a group for each label; made when the word is first met.

        The pattern begins with letters, which the engine finds much faster than a condition.
        """
        first = re.escape(self._first)
        rests = "|".join(f"({''.join(map(_next_word, label[1:]))})" for label in self._words)
        return re.compile(rf"{first}(?![^\W\d_])(?<![^\W\d_]{first})(?:{rests})")

    def labels(self, text: str) -> Iterator[Label]:
        """Yield the labels in a text; of two that begin at one place, the longer one."""
        for match in find_all(self._pattern, text):
            yield Label(match.start(), match.end(), self._concepts[(match.lastindex or 1) - 1])


@cache
def _phrases(group: str | None) -> Mapping[str, _Phrases]:
    """Return the labels of a group, or all, by their first word."""
    by_first: dict[str, dict[tuple[str, ...], str]] = defaultdict(dict)
    path = files("llmeval_sdk.text") / "data" / "labels.json"
    for concept, labels in json.loads(path.read_text(encoding="utf-8")).items():
        for label in labels if group in (None, GROUP_OF[concept]) else ():
            words = tuple(plain(label).translate(_JOINTS).split())
            if 0 < len(words) <= _MAX_WORDS:
                by_first[words[0]].setdefault(words, concept)
    return {first: _Phrases(first, labels) for first, labels in by_first.items()}


def _next_word(word: str) -> str:
    return rf"[ ._/'’\t-]{{0,3}}{re.escape(word)}(?![^\W\d_])"


def labels_in(text: str, group: str | None = None) -> list[Label]:
    """Return the labels of known concepts in a text that is in plain form, in their order.

    ``group`` names one of `GROUPS`, where only its concepts are wanted. Of two labels that begin at
    one place, the longer one counts, and none begins inside of another.
    """
    phrases = _phrases(group)
    there = phrases.keys() & _words_in(text)
    if not there:
        return []
    every = sorted(chain.from_iterable(phrases[first].labels(text) for first in there))
    labels: list[Label] = []
    end = 0
    for label in paced(every[:_MAX_LABELS]):
        if label.start < end or (GROUP_OF[label.concept] == "party" and not _leads(text, label)):
            continue
        if labels and _is_part(text, labels[-1], label):
            continue
        labels.append(label)
        end = label.end
    return labels


_ONLY_LETTERS = bytes(code if chr(code).isalpha() else 32 for code in range(128)) + bytes(128)


def _words_in(text: str) -> set[str]:
    if text.isascii():  # a table is some ten times as fast as an expression
        return set(text.encode().translate(_ONLY_LETTERS).decode().split())
    words = {word for piece in pieces(text, _AT_ONCE) for word in _WORD.findall(piece)}
    if _SIGN.search(text):
        words.update(_WORD_WITH_SIGNS.findall(text))
    return words


_WITH = (
    r"\b(?:in|incl|included|includes|including|inclusive|inc|excl|excluding|exclusive|with|without|of"
    r"|inkl|inklusive|zzgl|ohne|mit|avec|hors|con|sin|com|sem|med|met|senza)\b"
)
_INCLUDED = re.compile(rf"[^\n]{{0,12}}{_WITH}[^\n]{{0,12}}")
_INCLUSION = re.compile(rf"{_WITH}[^\n]{{0,24}}", re.IGNORECASE)


def _is_part(text: str, first: Label, second: Label) -> bool:
    """Say whether a label only belongs to the one before it, as "tax" in "total incl. tax"."""
    if first.concept == second.concept or GROUP_OF[first.concept] != GROUP_OF[second.concept]:
        return False
    return _INCLUDED.fullmatch(text, first.end, second.start) is not None


_ENDS_LABEL = re.compile(r"[.#]{0,2}[ \t]{0,2}(?:[:|\n]|[ \t]{2}|\Z)")
_BEGINS_LABEL = re.compile(r"(?:\A|[\n|]|[.;:]\s)[ \t*#_]{0,4}\Z")


def _leads(text: str, label: Label) -> bool:
    """Say whether a word is a label and not a part of a sentence about sellers and buyers."""
    if _ENDS_LABEL.match(text, label.end):
        return True
    return _BEGINS_LABEL.search(text[max(0, label.start - 6) : label.start]) is not None


_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_JOINTS_OF_NAME = str.maketrans("_-", "  ")


def words_of_name(name: str) -> list[str]:
    """Return the words of a field's name as it writes them: ``due`` and ``Date`` of ``dueDate``."""
    return _HUMP.sub(" ", name).translate(_JOINTS_OF_NAME).split()


@lru_cache(maxsize=512)
def concept_of(name: str, description: str = "") -> str | None:
    """Return what a field asks for, by its name or else by its description; ``None`` if unknown.

    Of several concepts that a name has, the most specific one counts: ``total_tax`` is a tax.
    """
    return _concept_in(_HUMP.sub(" ", name[:100])) or _concept_in(
        description[:200], is_sentence=True
    )


def _plain_words(text: str) -> list[str]:
    """Return the words of a name or a sentence in plain form."""
    return plain(text).translate(_JOINTS).split()


def _concept_in(text: str, *, is_sentence: bool = False) -> str | None:
    words = _plain_words(text)
    text = " ".join(word for word in words if not word.isdecimal())  # as in amount_2
    group = None if is_sentence else _GROUP_OF_HEAD.get(text.rpartition(" ")[2])

    def is_meant(concept: str, start: int) -> bool:
        """Say whether the last word of a name allows a concept.

        A description asks for what it begins with: "who signs for the supplier" mentions one only.
        """
        if is_sentence:
            return text.count(" ", 0, start) < _MAX_BEFORE
        return group is None or GROUP_OF[concept] == group

    every = (label for group in GROUPS for label in labels_in(f"{text}:", group))
    labels = [label for label in every if not _is_apart(text, label)]
    labels = [label for label in labels if label.end - label.start == len(text)] or [
        label for label in labels if is_meant(label.concept, label.start)
    ]
    concepts = [label.concept for label in labels]
    if _OF_LINES.search(text) and not {"quantity", "unit_price", "tax"}.intersection(concepts):
        return "line_total" if {"total", "line_total"}.intersection(concepts) else None
    for concept in _SPECIFIC:
        if concept in concepts:
            return concept
    if concepts:
        return max(labels, key=lambda label: label.end - label.start).concept
    for concept, names in _FIELD_WORDS.items():
        for name in map(str.strip, names.split(";")):
            start = f" {text} ".find(f" {name} ")
            rest = text.replace(name, "", 1).split() if name in _GENERAL else ()
            if start >= 0 and is_meant(concept, start) and _USUAL.issuperset(rest):
                return concept
    return None


def _is_apart(text: str, label: Label) -> bool:
    """Say whether the other words of a name make another thing of what a label names.

    The period to terminate is no end, the change of control no money, and the principal amount not
    that of a line.
    """
    rest = f"{text[: label.start]} {text[label.end :]}".strip()
    if label.concept in VAGUE:
        return bool(_OF_LINES.sub("", rest).strip())
    goes_on = text[: label.end].endswith(_LINKS) and (text[label.end :] or text[: label.start])
    return bool(goes_on) or (label.concept == "change" and rest.startswith("of "))


_LINKS = (" to", " from", " by", " on", " at")
_MAX_BEFORE = 4
"""Words that may stand before what a description asks for, as in "name of the seller"."""
_HEADS = {
    "date": "date day",
    "amount": "amount cost fee price sum total value",
    "identifier": "code id no nr number ref reference",
    "": "address contact currency days email hours method pages phone status terms type weight"
    " year",
}
_GROUP_OF_HEAD = {word: group for group, words in _HEADS.items() for word in words.split()}
"""The last word of a name says what kind of thing it is: an invoice date is no number, and the
status of an order is nothing that the table knows."""
_OF_LINES = re.compile(r"\b(?:lines?|items?|positions?|rows?|products?|articles?|entries)\b")
_SPECIFIC = (
    "tax_id", "customer_number", "order_number", "invoice_number", "subtotal", "tax", "discount",
    "shipping", "due_date", "unit_price", "quantity",
)  # fmt: skip
"""Concepts whose names may hold the name of another one."""


def nearest_label(labels: list[Label], text: str, start: int, end: int) -> tuple[Label, str] | None:
    """Return the label that a place stands under, and whether it is ``before`` or ``above`` that.

    A label before a place is on its line; one above it has a line of its own.
    """
    pause()
    line = text.rfind("\n", 0, start) + 1
    last = _index(labels, start) - 1
    before = labels[last] if last >= 0 and labels[last].start >= line else None
    if before is not None and before.end <= start and _leads_to(text[before.end : start]):
        return before, "before"
    if text[line:start].strip(" |\t*"):  # it is not the first on its line
        return None
    above = _alone_above(labels, text, line)
    # Below another label, the label is part of a stack, whose values stand further down.
    is_stacked = above is not None and _alone_above(labels, text, above.start) is not None
    return None if above is None or is_stacked else (above, "above")


_DEFINITION = re.compile(r"\([^()\"“”]{0,40}[\"“”]([^()\"“”\n]{2,50})[\"“”]")
_MAX_DEFINITIONS, _MAX_DEFINING = 200, 300
_DEFINES = re.compile(
    r"[\s,;]{0,3}"
    r"|,?\s+(?:an?|having|with|located|whose|organi[sz]ed|incorporated|existing)\s[^\"“”]*"
)
_DEFINES_CLAUSE = re.compile(rf"{_DEFINES.pattern}|[^.;\"“”]{{0,120}}")


class Definition(NamedTuple):
    """A term that a text defines, as in ``3 May 2026 (the "Effective Date")``."""

    opens: int
    """Where the bracket begins."""
    label: Label
    """The term with what it names: a concept of the table, or else its own words."""


def definitions_in(text: str) -> list[Definition]:
    """Return the terms that a text defines in brackets, in their order."""
    return [
        Definition(match.start(), Label(*match.span(1), term_of(match[1])))
        for match in islice(find_all(_DEFINITION, text), _MAX_DEFINITIONS)
    ]


@lru_cache(maxsize=512)
def term_of(name: str) -> str:
    """Return the concept that a term or the name of a field names, or else its words."""
    return concept_of(name) or " ".join(_plain_words(_HUMP.sub(" ", name)))


def definition_behind(
    definitions: list[Definition], text: str, end: int, wanted: str
) -> Label | None:
    """Return the term that is defined for what ends at a place.

    It stands right behind that, or behind an apposition: Acme Inc., a Delaware corporation
    ("Supplier"). The term that is ``wanted`` may stand at the end of the clause.
    """
    at = bisect_left(definitions, end, key=_opens)
    if at == len(definitions) or definitions[at].opens > end + _MAX_DEFINING:
        return None
    opens, label = definitions[at]
    defines = _DEFINES_CLAUSE if label.concept == wanted else _DEFINES
    return label if defines.fullmatch(text, end, opens) else None


def _alone_above(labels: list[Label], text: str, place: int) -> Label | None:
    """Return the label that is alone on the last line with text above the line of a place."""
    stop = _end_of_text(text, text.rfind("\n", 0, place) + 1)
    top = text.rfind("\n", 0, stop) + 1
    own = labels_between(labels, top, stop)
    return own[0] if len(own) == 1 and _is_alone(text, own[0], top, stop) else None


def end_of_line(text: str, place: int) -> int:
    """Return where the line of a place ends."""
    end = text.find("\n", place)
    return end if end >= 0 else len(text)


_NEAR = 200
_MARKS = " :.|*#\t-"
"""What may stand beside the words of a label on their line, or alone on the line below it."""


def _end_of_text(text: str, stop: int) -> int:
    """Return where the last text before a place ends. Usually that is near, so little is copied."""
    first = max(0, stop - _NEAR)
    near = text[first:stop].rstrip(_MARKS + "\n")
    return first + len(near) if near else len(text[:first].rstrip(_MARKS + "\n"))


def label_of_column(heads: list[Head], text: str, start: int, end: int) -> Label | None:
    """Return the label of the column that a place stands in, among the heads of tables.

    Columns are told by bars or tabs, by the number of wide gaps where a row has as many as the
    head, or by what stands above each other. Where single spaces part them, the cells with figures
    stand under the labels in their order, if there are as many.
    """
    pause()
    line = text.rfind("\n", 0, start) + 1
    stop = end_of_line(text, end)
    rest = text[line:start] + text[end:stop]
    if not any(map(str.isdecimal, rest)) and sum(map(str.isalpha, rest)) < _MIN_BESIDE:
        return None  # it is no row of a table, but a line of its own, perhaps with a currency
    above = bisect_left(heads, line, key=_top) - 1
    if above < 0 or text.count("\n", heads[above].top, line) > _MAX_ROWS:
        return None
    top, row = heads[above]
    bottom = text.find("\n", top)
    if max(bottom - top, stop - line) > _MAX_LINE:
        return None
    return _label_above(row, text, (top, bottom), (line, stop), (start + end) // 2)


def _label_above(row: list[Label], text: str, head: Span, line: Span, place: int) -> Label | None:
    """Return the label of a head that stands in the column of a place on a line of its table."""
    top, _ = head
    for border in "|\t":
        if column := text.count(border, line[0], place):
            return next((one for one in row if text.count(border, top, one.start) == column), None)
    gaps = len(_WIDE_GAP.findall(text, *head))
    if not gaps:
        labels = [label for label in row if GROUP_OF[label.concept] != "party"]
        cells = [cell.span() for cell in _CELL_WITH_FIGURES.finditer(text, *line)]
        if len(cells) != len(labels):
            return None
        pairs = zip(labels, cells, strict=True)
        return next((label for label, (start, end) in pairs if start <= place < end), None)
    if gaps == len(_WIDE_GAP.findall(text, *line)):
        column = len(_WIDE_GAP.findall(text, line[0], place + 1))
        own = (one for one in row if len(_WIDE_GAP.findall(text, top, one.start + 1)) == column)
        return next(own, None)
    return min(row, key=lambda one: abs((one.start + one.end) // 2 - top - place + line[0]))


_MAX_LINE = 2_000
"""Longer lines are no rows of a table."""
_WIDE_GAP = re.compile(r"(?<=\S) {2,}(?=\S)")
_CELL_WITH_FIGURES = re.compile(r"(?<!\S)[^\s\d]*\d\S*")


def labels_between(labels: list[Label], start: int, end: int) -> list[Label]:
    """Return those of some labels, given in their order, that begin between two places."""
    return labels[_index(labels, start) : _index(labels, end)]


def _index(labels: list[Label], place: int) -> int:
    """Return the index of the first label that begins at a place or behind it."""
    return bisect_left(labels, place, key=_start)


_start, _top, _opens = attrgetter("start"), attrgetter("top"), attrgetter("opens")
_MAX_APART, _MAX_LETTERS = 80, 10
_MIN_BESIDE = 4
"""A line is the row of a table if so many letters, or any figure, stand beside the value."""
_OTHER_THING = re.compile(r"\b(?:and|or|und|oder|et|ou)\b", re.IGNORECASE)
_QUOTES = ('"', "“", "”")
_ASIDE = re.compile(r"\([^()\n]{0,30}\)|[\d.,]{1,8} ?%|[.·_ \t]{3,}")


def _leads_to(gap: str) -> bool:
    """Say whether a label belongs to what stands behind a gap, and not to something in between."""
    if len(gap) > 2 * _MAX_APART or gap.startswith(_QUOTES):  # a term that the text defines
        return False
    rest = _ASIDE.sub(" ", gap)
    if _OTHER_THING.search(rest):
        return False
    letters = sum(map(str.isalpha, rest))
    return letters <= _MAX_LETTERS and not any(map(str.isdecimal, rest))


_MAX_ROWS = 40


def _is_alone(text: str, label: Label, first: int, last: int) -> bool:
    rest = text[first : label.start] + _INCLUSION.sub("", text[label.end : last])
    return not any(map(str.isdecimal, rest)) and len(rest.strip(_MARKS)) <= 12


class Head(NamedTuple):
    """The head of a table: a line that has labels and no values."""

    top: int
    """Where the line begins."""
    labels: list[Label]


def heads_in(labels: list[Label], text: str) -> list[Head]:
    """Return the heads of the tables in a text: lines with two labels or more and no figures.

    ``labels`` are those of all groups, in their order, and so are the heads.
    """
    by_line: dict[int, list[Label]] = defaultdict(list)
    for label in labels:
        by_line[text.rfind("\n", 0, label.start) + 1].append(label)
    return [
        Head(top, row)
        for top, row in by_line.items()
        if len({label.concept for label in row}) > 1 and _is_head(text, top, row[-1])
    ]


def _is_head(text: str, top: int, last: Label) -> bool:
    return not any(map(str.isdecimal, text[top : end_of_line(text, last.end)][:400]))
