"""Structured answers over generated documents, with the errors that models make, each with its kind.

An answer is one object for one document, found among passages of others. What is right is known by
the facts that the document was made of.
"""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from benchmarks.quality.document_words import WORDS
from benchmarks.quality.documents import APART, KINDS, Document, Fact, Truth, documents
from llmeval_sdk.model import Chunk, Record


RIGHT, MISSED, EMPTY = "right", "missed", "empty"
ERRORS = {
    "neighbour": 0.30, "document": 0.25, "line": 0.10, "unit": 0.07, "dropped": 0.07,
    "transposed": 0.07, "invented": 0.07, "missed": 0.07,
}  # fmt: skip
"""Kind of error -> its share of the errors."""
WRONG_SHARE = 0.10
PARTIAL_SHARE, FEWEST_FIELDS, EMPTY_FIELDS = 0.5, 5, 2
PASSAGE_LINES = 16
MOST_PASSAGES = 5
NAMES = {
    "issued": "issue_date", "due": "due_date", "delivered": "delivery_date",
    "customer": "customer_name", "vendor": "vendor_name", "subtotal": "net_amount",
    "tax": "tax_amount", "total": "total_amount", "account": "bank_account",
    "start": "start_date", "end": "end_date", "opening": "opening_balance",
    "closing": "closing_balance", "fee": "recurring_fee", "deposit": "deposit",
    "contact": "contact_person", "item": "description", "quantity": "quantity",
    "price": "unit_price", "amount": "amount", "reference": "reference",
}  # fmt: skip
DESCRIPTIONS = {
    "issued": "Date on which it was issued", "due": "Date by which it has to be paid",
    "delivered": "Date of dispatch", "customer": "Who receives it", "vendor": "Who issued it",
    "subtotal": "Amount before tax", "tax": "Amount of tax", "total": "Amount to pay, with tax",
    "start": "First day of the period", "end": "Last day of the period",
    "reference": "The other side's reference", "fee": "Amount that falls due regularly",
}  # fmt: skip


@dataclass(frozen=True)
class Given:
    """One value of an answer, and what became of it."""

    path: str
    name: str
    key: str
    value: object
    truth: Truth | None
    kind: str
    """``right``, ``empty`` for a field that the document has no value of, or the kind of error."""

    @property
    def is_wrong(self) -> bool:
        return self.kind not in (RIGHT, EMPTY)

    @property
    def has_value(self) -> bool:
        return self.kind not in (MISSED, EMPTY)


@dataclass(frozen=True)
class Answer:
    """One object with its question and passages."""

    document: Document
    request: str
    chunks: tuple[Chunk, ...]
    given: tuple[Given, ...]
    is_described: bool
    descriptions: Mapping[str, str] = field(default_factory=lambda: DESCRIPTIONS)
    """What the app says about its fields, by their keys."""

    def value(self) -> dict[str, object]:
        """Return the object as an app would have it."""
        made: dict[str, object] = {}
        rows: dict[int, dict[str, object]] = {}
        for one in self.given:
            if row := re.match(r"\w+\[(\d+)\]", one.path):
                rows.setdefault(int(row[1]), {})[one.name] = one.value
            else:
                made[one.name] = one.value
        return made | ({"lines": [rows[n] for n in sorted(rows)]} if rows else {})

    def record(self) -> Record:
        """Return the record of the whole answer."""
        configs = {
            one.name: {"description": self.descriptions[one.key]}
            for one in self.given
            if one.key in self.descriptions
        }
        return Record(
            request=self.request,
            value=self.value(),
            retrieved_context=self.chunks,
            field_config=configs if self.is_described else None,
            span_name="extract_document",
        )

    def single(self, one: Given) -> Record:
        """Return the record of one field alone."""
        config = {"name": one.name}
        if self.is_described and one.key in self.descriptions:
            config["description"] = self.descriptions[one.key]
        return Record(
            request=self.request,
            value=one.value,
            retrieved_context=self.chunks,
            field_config=config,
            span_name="extract_document",
        )


def answers(
    locale: str, count: int, split: str = APART, wrong: float = WRONG_SHARE, seed: int = 34
) -> list[Answer]:
    """Return answers over as many documents of a locale, a share of their values wrong."""
    pool = documents(locale, count, split, seed)
    dice = random.Random(f"{seed} answers {locale} {split} {wrong}")
    return [_answer(document, pool, wrong, dice) for document in pool]


def _answer(
    document: Document, pool: Sequence[Document], wrong: float, dice: random.Random
) -> Answer:
    others = [other for other in pool if other.file != document.file]
    alike = [other for other in others if other.kind == document.kind] or others
    beside = dice.sample(alike, min(2, len(alike)))
    chunks = passages(document)[:3] + [c for other in beside for c in passages(other)][:2]
    dice.shuffle(chunks)
    form = dice.choice(("document", "normalised"))
    naming = dice.choice(("snake", "snake", "snake", "camel", "local"))
    given = []
    wanted = _wanted(document, dice)
    for path, name, fact, row in _fields(document, naming):
        if (fact.key if row is None else "lines") not in wanted:
            continue
        kind = RIGHT
        truth: Truth | None = fact.truth
        unit = ""
        if dice.random() < wrong:
            kind, truth, unit = _error(fact, row, document, beside, dice)
        value = None if truth is None else _value(fact, truth, document, form, unit)
        given.append(Given(path, name, fact.key, value, fact.truth, kind))
    given += _empty(document, {one.name for one in given})
    number = next(fact.text for fact in document.facts if fact.key == "number")
    title = WORDS[document.locale].titles[document.kind]
    request = dice.choice((f"Read {title} {number}.", f"Extract the fields of {document.file}"))
    return Answer(document, request, tuple(chunks), tuple(given), dice.random() < 0.5)


def _empty(document: Document, taken: set[str]) -> list[Given]:
    """Return fields that an app asks for as well, and of which the document says nothing."""
    dice = random.Random(f"empty fields of {document.file}")
    own = {fact.key for fact in document.facts}
    others = sorted({key for keys in KINDS.values() for key in keys} - own - {"number"})
    names = [(NAMES[key], key) for key in dice.sample(others, EMPTY_FIELDS)]
    return [Given(name, name, key, None, None, EMPTY) for name, key in names if name not in taken]


def _wanted(document: Document, dice: random.Random) -> set[str]:
    """Return the facts that an app asks for: all of them, or at least five and perhaps the lines.

    Where a neighbour is not asked for, nothing in the answer shows that its value was taken.
    """
    keys = [fact.key for fact in document.facts]
    if dice.random() < PARTIAL_SHARE:
        keys = dice.sample(keys, dice.randint(FEWEST_FIELDS, len(keys)))
        return {*keys, "lines"} if dice.random() < 0.5 else set(keys)
    return {*keys, "lines"}


def passages(document: Document) -> list[Chunk]:
    """Cut a document into passages, as a retriever would have them."""
    lines = document.text.splitlines()
    texts = [
        "\n".join(lines[at : at + PASSAGE_LINES]) for at in range(0, len(lines), PASSAGE_LINES)
    ]
    return [Chunk(text, document.file, f"{document.file}#{n}") for n, text in enumerate(texts)]


def _fields(
    document: Document, naming: str
) -> Iterator[tuple[str, str, Fact, tuple[Fact, ...] | None]]:
    """Yield path, name, fact and row of each field."""
    taken: set[str] = set()
    for fact in document.facts:
        name = _name(fact, document, naming, taken)
        yield name, name, fact, None
    for place, row in enumerate(document.rows):
        taken = set()
        for fact in row:
            name = _name(fact, document, naming, taken)
            yield f"lines[{place}].{name}", name, fact, row


def _name(fact: Fact, document: Document, naming: str, taken: set[str]) -> str:
    name = NAMES.get(fact.key, f"{document.kind}_{fact.key}")
    if naming == "local":
        local = re.sub(r"\W+", "_", fact.label).strip("_").lower()
        name = local if local and local not in taken and local != "lines" else name
    if naming == "camel":
        first, *rest = name.split("_")
        name = first + "".join(word.title() for word in rest)
    taken.add(name)
    return name


def _value(fact: Fact, truth: Truth, document: Document, form: str, unit: str) -> object:
    """Write a truth in the form of the answer."""
    if isinstance(truth, Decimal):
        if unit:
            return document.style.amount(truth, unit)
        return document.style.amount(truth) if form == "document" else float(truth)
    if isinstance(truth, dt.date):
        return truth.isoformat() if form == "normalised" else document.style.text(fact.key, truth)
    return truth


Error = tuple[str, Truth | None, str]


def _error(
    fact: Fact, row: tuple[Fact, ...] | None, document: Document,
    beside: Sequence[Document], dice: random.Random,
) -> Error:  # fmt: skip
    """Return a kind of error with its truth, and the currency where that is wrong."""
    kinds = list(ERRORS)
    for _ in range(20):
        kind = dice.choices(kinds, list(ERRORS.values()))[0]
        if kind == "missed":
            return kind, None, ""
        if kind == "unit":
            if fact.kind == "money" and isinstance(fact.truth, Decimal):
                return _wrong_unit(fact.truth, document, dice)
            continue
        truth = _wrong(kind, fact, row, document, beside, dice)
        if truth is not None and truth != fact.truth:
            return kind, truth, ""
    return "invented", _invented(fact, document, dice), ""


def _wrong_unit(truth: Decimal, document: Document, dice: random.Random) -> Error:
    if document.style.money != "bare" and dice.random() < 0.5:
        return "unit", truth, "USD" if document.style.currency != "USD" else "EUR"
    return "unit", truth * 1000, ""


def _wrong(
    kind: str, fact: Fact, row: tuple[Fact, ...] | None, document: Document,
    beside: Sequence[Document], dice: random.Random,
) -> Truth | None:  # fmt: skip
    if kind == "neighbour":
        near = row or document.facts
        return _one_of([f.truth for f in near if f.key != fact.key and f.kind == fact.kind], dice)
    if kind == "document":
        seen = beside[:1] or beside
        return _one_of([f.truth for d in seen for f in d.every() if f.key == fact.key], dice)
    if kind == "line":
        rows = [f for other in document.rows if other is not row for f in other]
        return _one_of([f.truth for f in rows if row and f.key == fact.key], dice)
    if kind == "invented":
        return _invented(fact, document, dice)
    return _misread(fact.truth, kind, dice)


def _one_of(truths: Sequence[Truth], dice: random.Random) -> Truth | None:
    return dice.choice(truths) if truths else None


def _misread(truth: Truth, kind: str, dice: random.Random) -> Truth | None:
    """Drop a digit, or let two change places."""
    if isinstance(truth, dt.date):
        day, month = (truth.day, truth.month) if kind == "dropped" else (truth.month, truth.day)
        day = day % 10 if kind == "dropped" else day
        return truth.replace(day=day, month=month) if day > 0 and month <= 12 else None
    text = str(truth)
    places = [at for at, c in enumerate(text) if c.isdigit()]
    if len(places) < 2:
        return None
    at = dice.randrange(len(places) - 1)
    first, second = places[at], places[at + 1]
    letters = list(text)
    if kind == "dropped":
        del letters[first]
    else:
        letters[first], letters[second] = letters[second], letters[first]
    new = "".join(letters)
    if isinstance(truth, Decimal):
        return Decimal(new)
    return int(new) if isinstance(truth, int) else new


def _invented(fact: Fact, document: Document, dice: random.Random) -> Truth:
    truth = fact.truth
    if isinstance(truth, dt.date):
        return truth + dt.timedelta(days=dice.choice((-400, -200, 11, 100, 370)))
    if isinstance(truth, Decimal):
        return truth + Decimal(dice.randint(3, 4000))
    if isinstance(truth, int):
        return truth + dice.randint(41, 90)
    if fact.kind == "code":
        return re.sub(r"\d", lambda m: str((int(m[0]) + dice.randint(1, 8)) % 10), truth)
    words = WORDS[document.locale]
    pool = {"item": words.items, "contact": words.people}.get(fact.key, words.customers)
    fresh = [text for text in pool if text != truth and text not in document.text]
    return dice.choice(fresh) if fresh else f"{truth} Nova"
