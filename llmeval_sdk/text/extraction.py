"""Reading extraction records: values, the passages they came from, and their rivals.

An extraction goes wrong in its own way: the value is copied faithfully, from the right document,
and answers another question (the subtotal instead of the total). What tells the two apart is what
stands around the value and around every other value of its kind. This module reads that and
judges nothing: `llmeval_sdk.heuristics.extraction` makes scores of it, and the judge
``extraction_correctness`` shows the rivals to its model.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple

from llmeval_sdk.model import Record
from llmeval_sdk.model.documents import sources_of
from llmeval_sdk.process.pieces import paced, pause
from llmeval_sdk.text.amounts import Date
from llmeval_sdk.text.budget import TooLargeError, WorkBudget
from llmeval_sdk.text.cues import Cues, Marks, Sections, cues, sections_in
from llmeval_sdk.text.labels import (
    GROUP_OF,
    VAGUE,
    Definition,
    Head,
    Label,
    concept_of,
    definition_behind,
    definitions_in,
    end_of_line,
    heads_in,
    label_of_column,
    labels_between,
    labels_in,
    nearest_label,
    term_of,
)
from llmeval_sdk.text.support import MAX_CODE, EvidenceText, How, Span, find
from llmeval_sdk.text.values import (
    FREE_FORM,
    abstained,
    core_of,
    form_of_amount,
    form_of_date,
    items,
    kind_of,
    normal,
    plain_form,
    spans_of_kind,
    text_of,
)


# The passages of a Record as one text, bounded, with a way back to the chunk of every place.

MAX_TEXT = 40_000
"""Characters of all passages together; where there are more, the cited ones come first."""
MAX_PASSAGE = 10_000
MAX_CHUNKS = 500
MAX_QUOTES = 20
_GAP = "\n\n"
_SHOWN = 200
_MAX_MARKS, _MAX_OPPONENTS = 30, 10
"""For one text, the marks of at most so many sets of cues are kept, and the rivals by so many."""


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
    locale: str | None = None
    """In which the passages are written, where the field's configuration says so."""
    _evidence: list[EvidenceText] = field(default_factory=list, compare=False, repr=False)
    _labels: dict[str | None, list[Label]] = field(default_factory=dict, compare=False, repr=False)
    _heads: list[list[Head]] = field(default_factory=list, compare=False, repr=False)
    _marks: dict[Cues, Marks] = field(default_factory=dict, compare=False, repr=False)
    _opponents: dict[tuple[str, Cues], Opponents] = field(
        default_factory=dict, compare=False, repr=False
    )
    _sections: list[Sections] = field(default_factory=list, compare=False, repr=False)
    _definitions: list[list[Definition]] = field(default_factory=list, compare=False, repr=False)
    _columns: dict[tuple[int, int], Label | None] = field(
        default_factory=dict, compare=False, repr=False
    )
    _field_labels: dict[str, _FieldLabels] = field(default_factory=dict, compare=False, repr=False)
    _nearest: dict[tuple[str, int, int], tuple[Label | None, str]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def labels(self, group: str | None = None) -> list[Label]:
        """Return the labels of a group of concepts, or of all, by their places in the text."""
        if not self._labels:
            evidence = self.evidence
            every = labels_in(evidence.plain)
            if not evidence.keeps_places:
                every = [
                    Label(*evidence.original(label.start, label.end), label.concept)
                    for label in every
                ]
            grouped: dict[str | None, list[Label]] = {None: every}
            for label in every:
                grouped.setdefault(GROUP_OF[label.concept], []).append(label)
            self._heads.append(heads_in(every, self.text))
            self._labels.update(grouped)  # last, and at once: another thread may read the text, too
        return self._labels.get(group, [])

    def field_labels(self, concept: str) -> _FieldLabels:
        """Return the labels for fields that ask for a concept, or for a term of the passages."""
        known = self._field_labels.get(concept)
        if known is not None:
            return known
        try:
            labels = self.labels(GROUP_OF[concept]) if concept in GROUP_OF else []
        except TooLargeError:  # not kept: the next record has its own limit of work
            return _FieldLabels(concept, [], self, {}, has_own=False)
        terms = (definition.label for definition in self.definitions)
        has_own = concept in _PARTIES or any(
            label.concept == concept for label in chain(labels, terms)
        )
        known = self._field_labels[concept] = _FieldLabels(concept, labels, self, {}, has_own)
        return known

    @property
    def definitions(self) -> list[Definition]:
        """The terms that the text defines, found when they are first needed."""
        if not self._definitions:
            self._definitions.append(definitions_in(self.text))
        return self._definitions[0]

    def nearest(self, group: str, start: int, end: int) -> tuple[Label | None, str]:
        """Return the label of a group that a place stands under, and how; kept for other fields."""
        place = group, start, end
        if place not in self._nearest:
            label, how = nearest_label(self.labels(group), self.text, start, end) or (None, "")
            if label is not None and how == "before" and self._is_passed(label, group, start):
                label, how = None, ""
            self._nearest[place] = label, how
        return self._nearest[place]

    def _is_passed(self, label: Label, group: str, start: int) -> bool:
        """Say whether a label of another group stands between a label and what follows it.

        "Total qty: 4" tells a quantity and no total.
        """
        between = labels_between(self.labels(), label.end, start)
        return any(GROUP_OF[other.concept] not in (group, "party") for other in between)

    def column(self, start: int, end: int) -> Label | None:
        """Return the label of the column that a place stands in; kept for other fields."""
        place = start, end
        if place not in self._columns:
            self.labels()  # which finds the heads of tables as well
            self._columns[place] = label_of_column(self._heads[0], self.text, start, end)
        return self._columns[place]

    def marks(self, cues: Cues) -> Marks:
        """Return where the cues of a field stand; kept for fields of the same name in a list."""
        marks = self._marks.get(cues)
        if marks is None:
            if len(self._marks) >= _MAX_MARKS:
                self._marks.clear()
            marks = self._marks[cues] = Marks.of(self.lowered, cues, self.sections)
        return marks

    def opponents(self, kind: str, marks: Marks) -> Opponents:
        """Return all values of a kind as rivals of fields with some cues; kept for such fields."""
        key = kind, marks.cues
        opponents = self._opponents.get(key)
        if opponents is None:
            if len(self._opponents) >= _MAX_OPPONENTS:
                self._opponents.clear()
            opponents = self._opponents[key] = Opponents(self, kind, marks)
        return opponents

    def is_heading(self, start: int, end: int) -> bool:
        """Say whether a line holds the labels of two columns or more, and no figures."""
        text = self.text[start:end]
        if any(map(str.isdecimal, text)):
            return False
        labels: list[Label] = []
        with suppress(TooLargeError):
            labels = self.labels()
        return len({label.concept for label in labels_between(labels, start, end)}) > 1

    @property
    def evidence(self) -> EvidenceText:
        """The text as the scores of groundedness search it, made when it is first needed."""
        if not self._evidence:
            self._evidence.append(EvidenceText(self.text, locale=self.locale))
        return self._evidence[0]

    def spend_from(self, budget: WorkBudget) -> None:
        """Let the work of searching the text count for the record that is read now."""
        self.evidence.budget = budget

    def number_at(self, place: int) -> int:
        """Return the chunk number of a place in the text; 0 in quoted evidence."""
        return self.numbers[bisect_right(self.starts, place) - 1] if self.starts else 0

    @property
    def sections(self) -> Sections:
        """The sections of the text, found when they are first needed."""
        if not self._sections:
            self._sections.append(sections_in(self.text, self.lowered, self.starts))
        return self._sections[0]

    def line_at(self, start: int, end: int) -> str:
        """Return the line or lines around a place, at most 200 characters."""
        first = max(self.text.rfind("\n", 0, start) + 1, start - _SHOWN // 2)
        stop = min(end_of_line(self.text, end), end + _SHOWN // 2)
        return self.text[first:stop].strip()[:_SHOWN]

    def shown(self, value: str, start: int, end: int) -> dict[str, Any]:
        """Describe a value at a place for people, judges and metadata."""
        return {
            "value": value[:_SHOWN],
            "chunk_number": self.number_at(start) or None,
            "evidence": self.line_at(start, end),
        }

    def located(self, value: str, start: int, end: int) -> dict[str, Any]:
        """Describe a value as `shown` does, with its ``start`` and ``end`` in its own passage."""
        offset = self.starts[bisect_right(self.starts, start) - 1] if self.starts else 0
        return {**self.shown(value, start, end), "start": start - offset, "end": end - offset}


def passages_of(
    record: Record, documents: Collection[str] = (), budget: WorkBudget | None = None
) -> Passages:
    """Join what a record retrieved and what its extractions quote beyond that, without repeats.

    ``documents`` are the addresses of the only documents that are joined; none stands for all. The
    work of searching the passages is spent from ``budget``, by default that of one score.
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
    config = record.field_config
    locale = config.get("locale") if isinstance(config, Mapping) else None
    passages = _join(
        tuple((number, content[: MAX_PASSAGE + 1]) for number, content in chunks),
        locale if isinstance(locale, str) else None,
    )
    passages.spend_from(budget or WorkBudget())
    return passages


def _stands_in(quote: str, contents: list[str]) -> bool:
    """Say whether a quote is a part of one of the texts, line breaks and spaces aside."""
    quote = quote[:MAX_PASSAGE]
    if any(quote in content for content in contents):
        return True
    plain = " ".join(quote.split())
    return any(plain in " ".join(content[:MAX_PASSAGE].split()) for content in contents)


@lru_cache(8)  # every field of a document asks about the same passages; each may keep some 4 MB
def _join(chunks: tuple[tuple[int, str], ...], locale: str | None) -> Passages:
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
    chunk_numbers = tuple(numbers.values())[: len(parts)]
    return Passages(text, lower(text), tuple(starts), chunk_numbers, cut, locale=locale)


def lower(text: str) -> str:
    """Lower a text without moving anything in it."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)


# Everything of a kind in a text: the possible rivals.

MAX_CANDIDATES = 300
"""Of one kind in one record; a text is not searched for more."""


def candidates(kind: str, passages: Passages) -> Iterator[tuple[int, int]]:
    """Yield where something of a kind stands, at most `MAX_CANDIDATES` times.

    A ``line`` is a whole line, ``text`` a sentence. Of booleans and codes there are no candidates.
    """
    yield from islice(_candidates(kind, passages), MAX_CANDIDATES)


def _candidates(kind: str, passages: Passages) -> Iterator[tuple[int, int]]:
    if kind in _READ:
        yield from (value[:2] for value in _read_values(kind, passages))
    else:
        yield from spans_of_kind(kind, passages.text, passages.lowered)


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
    is_inexact: bool = False
    """Whether the passages have most of its words, and not all or not in this spelling."""
    concept: str = ""
    """What the field asks for, as labels of documents name it, or else by the words of its name."""
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
    passages: Passages | None = None,
) -> list[Reading]:
    """Read the single values of a record against its passages; empty where it has no value.

    ``most`` values are read. Without ``with_rivals`` nothing competes with them, which is cheaper.
    ``passages`` are those of the record, where they are there already.
    """
    values = [text for value in values_of(record)[:most] if (text := text_of(value))]
    if passages is None:
        passages = passages_of(record)
    marks = passages.marks(cues(record.field_config, record.request))
    forms = frozenset(map(normal, values))
    labels = _FieldLabels.of(record.field_config, passages)
    return [
        _read(value, forms, passages, marks, labels, with_rivals=with_rivals) for value in values
    ]


_PARTIES = frozenset(("parties", "party", "contracting parties"))
"""Fields for which any term will do that a contract defines behind a name."""
_COLUMN_OF_AMOUNTS = frozenset(("total", "line_total"))
"""Labels that may head the column of amounts."""
_SUMS = frozenset(("total", "subtotal", "tax", "discount", "shipping", "paid", "change"))
"""Amounts that may stand below the items, in the column of amounts."""


class _FieldLabels(NamedTuple):
    """The labels of passages that may name a field or one of its neighbours."""

    concept: str
    """What the field asks for: a concept of the table of labels, or else the words of its name."""
    labels: list[Label]
    """The labels of the group of concepts that the field belongs to."""
    passages: Passages
    known: dict[Span, tuple[Label | None, bool]]
    """The label over each place that was asked about before, and whether it stands beside it."""
    has_own: bool
    """Whether a label names the field."""

    @classmethod
    def of(cls, config: object, passages: Passages) -> _FieldLabels:
        """Find the labels for a field by its name and description."""
        config = config if isinstance(config, Mapping) else {}
        name, description = config.get("name"), config.get("description")
        name = name if isinstance(name, str) else ""
        concept = concept_of(name, description if isinstance(description, str) else "")
        return passages.field_labels(concept or term_of(name[:100]))

    def over(self, span: tuple[int, int], *, beside: bool = False) -> Label | None:
        """Return the label that a place stands under; ``beside`` looks on its own line only."""
        if not self.labels and not self.has_own:
            return None
        known = self.known.get(span)
        if known is None:
            known = self.known[span] = self._find_over(span)
        label, is_beside = known
        return label if is_beside or not beside else None

    def _find_over(self, span: Span) -> tuple[Label | None, bool]:
        label, how, group = None, "", GROUP_OF.get(self.concept, "")
        if self.labels:
            label, how = self.passages.nearest(group, *span)
        if label is None or label.concept != self.concept:
            terms, text = self.passages.definitions, self.passages.text
            term = definition_behind(terms, text, span[1], self.concept)
            if term is not None and self.concept in _PARTIES:
                return term._replace(concept=self.concept), True
            if term is not None and (label is None or term.concept == self.concept):
                return term, True
        if label is None:
            column = self.passages.column(*span) if self.labels else None
            return self._of_column(column), False
        if label.concept in VAGUE and label.concept != self.concept:
            return None, False
        return label, how == "before"

    def _of_column(self, label: Label | None) -> Label | None:
        """Return what the label of a column says of the field.

        The column of amounts may be headed by the word for a total, and below the items it holds
        the sums as well.
        """
        if label is None or GROUP_OF[label.concept] != GROUP_OF.get(self.concept):
            return None
        if label.concept not in _COLUMN_OF_AMOUNTS or self.concept == label.concept:
            return label
        if self.concept == "line_total":
            return label._replace(concept="line_total")
        return None if self.concept in _SUMS else label

    def own(self, span: tuple[int, int], *, beside: bool = False) -> Label | None:
        """Return the label that a place stands under if it names the field."""
        label = self.over(span, beside=beside)
        return label if label is not None and label.concept == self.concept else None


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
    core = core_of(value) if kind in _PHRASES else None
    standing = places(value, passages)
    spans = tuple((start, end) for start, end, _ in standing or ())
    is_inexact = bool(standing and standing[0].how == "aligned")
    own = [span for span in spans if labels.own(span) is not None]
    best, cue = marks.best(own or spans)
    label = labels.over(best) if best is not None else None
    if core is not None:
        kind = core[0]
        forms = {*forms, core[1]}
        cores = _within(best, core[1], values_in(passages, kind)) if best is not None else ()
        label = next(filter(None, map(labels.own, cores)), label)
    opponents: tuple[Rival, ...] = ()
    if with_rivals:
        among = passages.opponents(kind, marks)
        opponents = among.of(spans, forms, labels if labels.has_own and not own else None)
    return Reading(
        value, form, kind, passages, marks, spans, best, cue, opponents, standing is not None,
        is_inexact, labels.concept, label, labels.has_own,
    )  # fmt: skip


_PHRASES = ("line", "text")


def _within(span: Span, form: str, values: Iterable[PossibleValue]) -> Iterator[Span]:
    """Yield where values of a form stand within a place."""
    start, end = span
    for value in values:
        if start <= value.start and value.end <= end and value.form == form:
            yield value.start, value.end


class Place(NamedTuple):
    """Where a value stands in the passages, and in which form."""

    start: int
    end: int
    how: How


def places(value: object, passages: Passages) -> tuple[Place, ...] | None:
    """Find where a value stands: as written, else in another form of the same value.

    ``None`` says that nothing was looked for: there is no yes or no for a boolean, or the passages
    take too much work. `Passages.number_at` names the chunk of a place.
    """
    text = text_of(value)
    is_code = len(text) <= MAX_CODE and text.isupper()  # in small letters it may be any word
    written = () if is_code or not text else tuple(_as_written(lower(text), passages.lowered))
    if written:
        return tuple(Place(start, end, "verbatim") for start, end in written)
    try:
        answer = find(text, passages.evidence, most=MAX_OCCURRENCES)
    except TooLargeError:
        return None
    return None if answer is None else tuple(Place(*span, answer.how) for span in answer.spans)


def _as_written(lowered: str, text: str) -> Iterator[tuple[int, int]]:
    count, at = 0, text.find(lowered)
    has_edges = lowered[0].isalnum(), lowered[-1].isalnum()
    is_figure = lowered[0].isdecimal(), lowered[-1].isdecimal()
    while at >= 0 and count < MAX_OCCURRENCES:
        end = at + len(lowered)
        if not (
            (has_edges[0] and text[at - 1 : at].isalnum())
            or (has_edges[1] and text[end : end + 1].isalnum())
            or (is_figure[0] and _IN_NUMBER.match(text, max(0, at - 2), at + 1))
            or (is_figure[1] and _IN_NUMBER.match(text, end - 1, end + 2))
        ):
            count += 1
            yield at, end
        at = text.find(lowered, end)


_IN_NUMBER = re.compile(r"\d[.,]\d")


class Opponents:
    """All values of a kind in the passages, as rivals of fields that have the same cues.

    The fields of one answer share them: for twenty amounts, each rival is weighed once.
    """

    def __init__(self, passages: Passages, kind: str, marks: Marks) -> None:
        self._kind, self._marks = kind, marks
        self._values = sorted(values_in(passages, kind), key=_place)
        self._starts = [value.start for value in self._values]
        self._longest = max((value.end - value.start for value in self._values), default=0)
        self._by_form: dict[str, list[PossibleValue]] = {}
        for value in values_in(passages, kind):
            self._by_form.setdefault(value.form, []).append(value)
        if kind == "line":
            for form, (first, *_) in list(self._by_form.items()):
                if passages.is_heading(first.start, first.end):
                    del self._by_form[form]
        self._by_form.pop("", None)
        self._ranked: dict[str | None, dict[str, Rival]] = {}
        """By the field's concept, where labels count, and by form: the rivals in their order, each
        made when a field first needs it."""

    def of(
        self, spans: Sequence[Span], forms: Collection[str], labels: _FieldLabels | None
    ) -> tuple[Rival, ...]:
        """Return the rivals of a value, the one that cues speak for most first.

        ``spans`` are the places of the value, which hold no rival of it, and ``forms`` the normal
        forms of all values of its field. With ``labels`` those rivals come first that stand under a
        label which names the field.
        """
        left = {value.form for span in spans for value in self._overlapping(span)}
        apart = left.difference(forms)
        left.update(forms)
        if self._kind in ("name", "line"):  # a part of a name is no rival of it
            parts = {form for form in self._by_form if any(_is_part(form, own) for own in forms)}
            apart -= parts
            left |= parts
        ranked = self._ranked_by(labels, left)
        rivals = [rival for form, rival in ranked.items() if form not in left]
        beside = [self._best(form, labels, spans) for form in apart.intersection(self._by_form)]
        if any(beside):
            rivals += filter(None, beside)
            rivals.sort(key=_rank)
        return tuple(rivals)

    def _ranked_by(self, labels: _FieldLabels | None, left: Collection[str]) -> Mapping[str, Rival]:
        """Return the rival of each form where all its places count, by their rank.

        Of the forms that are ``left`` out, those are missing that no other field has asked for.
        """
        concept = labels.concept if labels is not None else None
        ranked = self._ranked.setdefault(concept, {})
        if len(ranked) < len(self._by_form):
            new = [form for form in self._by_form if form not in ranked and form not in left]
            weighed = ((form, self._best(form, labels)) for form in new)
            every = [*ranked.items(), *((form, rival) for form, rival in weighed if rival)]
            every.sort(key=lambda pair: _rank(pair[1]))
            ranked = self._ranked[concept] = dict(every)
        return ranked

    def _best(
        self, form: str, labels: _FieldLabels | None, spans: Sequence[Span] = ()
    ) -> Rival | None:
        """Return a rival at the place that cues speak for most, outside of some places."""
        pause()
        best, most, times = None, -1.0, 0
        for value in paced(self._by_form[form]):
            start, end, _, _ = value
            if any(start < stop and end > begin for begin, stop in spans):
                continue
            times += 1
            cue = self._marks.near(start, end)
            if cue > most:
                best, most = value, cue
        if best is None:
            return None
        # Any capitalised word may be a name, so that of names only a label beside them counts.
        place, beside = (best.start, best.end), self._kind in FREE_FORM
        label = labels.own(place, beside=beside) if labels is not None else None
        return Rival(best.value, *place, most, times, label)

    def _overlapping(self, span: Span) -> Iterator[PossibleValue]:
        begin, stop = span
        for at in range(bisect_right(self._starts, begin - self._longest), len(self._starts)):
            value = self._values[at]
            if value.start >= stop:
                return
            if value.end > begin:
                yield value


def _place(value: PossibleValue) -> Span:
    return value.start, value.end


def _rank(rival: Rival) -> tuple[bool, float, int]:
    return rival.label is None, -rival.cue, rival.start


def values_in(passages: Passages, kind: str) -> tuple[PossibleValue, ...]:
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
    marks = passages.marks(words)
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
