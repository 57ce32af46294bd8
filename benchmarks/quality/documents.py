"""Generated business documents of many locales: invoices, orders, receipts, contracts, statements.

Each is made of facts, whose truth is a date, a number or a text, so that what is right is known
without reading the document. Two splits share no layout, company or rare label, and some locales
belong to none of the training (`document_words.KEPT_APART`).
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from babel.dates import format_date
from babel.numbers import format_currency, format_decimal

from benchmarks.quality.document_words import KEPT_APART, WORDS, Words


TRAIN, APART = "train", "apart"
LAYOUTS = {
    TRAIN: ("lines", "columns", "pipes", "above"),
    APART: ("table", "pairs", "prose", "dotted"),
}
KINDS = {
    "invoice": ("number", "reference", "issued", "delivered", "due", "vendor", "customer",
                "subtotal", "tax", "total", "account"),
    "order": ("number", "reference", "issued", "delivered", "vendor", "customer", "contact",
              "subtotal", "tax", "total"),
    "receipt": ("vendor", "number", "issued", "subtotal", "tax", "total"),
    "contract": ("number", "issued", "vendor", "customer", "start", "end", "fee", "deposit",
                 "contact"),
    "statement": ("number", "customer", "account", "start", "end", "opening", "closing", "fee"),
    "delivery": ("number", "reference", "issued", "delivered", "vendor", "customer", "contact"),
}  # fmt: skip
"""Kind of document -> its facts, in the order in which they stand."""
COLUMNS = {
    "invoice": ("item", "quantity", "price", "amount"),
    "order": ("item", "quantity", "price", "amount"),
    "receipt": ("item", "amount"),
    "delivery": ("item", "quantity"),
}
DATES = frozenset(("issued", "delivered", "due", "start", "end"))
MONEY = frozenset(
    ("subtotal", "tax", "total", "fee", "deposit", "opening", "closing", "price", "amount")
)
CODES = frozenset(("number", "reference", "account"))
RARE_SHARE = 0.25
"""Of the labels of documents that are kept apart."""
TRAINED_SHARE = 2 / 3
"""Of a locale's companies."""
WITHOUT_CENTS = ("JPY", "KRW")

Truth = dt.date | Decimal | int | str


@dataclass(frozen=True)
class Fact:
    """One value of a document: what it is, what it is called, and how the document writes it."""

    key: str
    truth: Truth
    text: str
    label: str

    @property
    def kind(self) -> str:
        return kind_of(self.key)


def kind_of(key: str) -> str:
    """Return which facts can be taken for each other."""
    for kind, keys in (("date", DATES), ("money", MONEY), ("code", CODES)):
        if key in keys:
            return kind
    return {"quantity": "number", "item": "item"}.get(key, "name")


@dataclass(frozen=True)
class Style:
    """How one document writes its dates and amounts."""

    locale: str
    currency: str
    date: str
    money: str

    def text(self, key: str, truth: Truth) -> str:
        """Write a truth as this document does."""
        if isinstance(truth, dt.date):
            return format_date(truth, self.date, locale=self.locale)
        if isinstance(truth, Decimal):
            return self.amount(truth)
        return str(truth)

    def amount(self, amount: Decimal, currency: str = "") -> str:
        currency = currency or self.currency
        if self.money == "symbol":
            return format_currency(amount, currency, locale=self.locale)
        cents = "#,##0" if currency in WITHOUT_CENTS else "#,##0.00"
        number = format_decimal(amount, cents, locale=self.locale)
        return {"before": f"{currency} {number}", "after": f"{number} {currency}"}.get(
            self.money, number
        )


@dataclass(frozen=True)
class Document:
    """One document: its text, and the facts that it states."""

    locale: str
    kind: str
    layout: str
    file: str
    style: Style
    facts: tuple[Fact, ...]
    rows: tuple[tuple[Fact, ...], ...]
    text: str

    def every(self) -> Iterator[Fact]:
        yield from self.facts
        for row in self.rows:
            yield from row


def documents(locale: str, count: int, split: str, seed: int = 34) -> list[Document]:
    """Return documents of a locale; the same for the same arguments."""
    if split == TRAIN and locale in KEPT_APART:
        raise ValueError(f"{locale} is kept apart from training")
    dice = random.Random(f"{seed} {locale} {split}")
    kinds = list(KINDS)
    return [
        _document(WORDS[locale], kinds[n % len(kinds)], split, dice, n % 5) for n in range(count)
    ]


def vendors_of(words: Words, split: str) -> tuple[str, ...]:
    """Return the companies of a split."""
    cut = round(len(words.vendors) * TRAINED_SHARE)
    return words.vendors[:cut] if split == TRAIN else words.vendors[cut:]


def _document(
    words: Words, kind: str, split: str, dice: random.Random, named_by_number: int
) -> Document:
    style = Style(
        words.locale.replace("-", "_"),
        words.currency,
        dice.choice(("medium", "long", _with_whole_year(words.locale))),
        dice.choice(("symbol", "before", "after", "bare")),
    )
    rare = RARE_SHARE if split == APART else 0.0
    labels = {
        key: names[-1] if dice.random() < rare else names[0] for key, names in words.labels.items()
    }
    if kind != "invoice":
        labels["number"] = f"{words.titles[kind]} {words.number}"
        labels["issued"] = words.date
    rows = _rows(words, kind, style, labels, dice)
    truths = _truths(words, kind, split, rows, dice)
    facts = tuple(
        Fact(key, truths[key], style.text(key, truths[key]), labels[key]) for key in KINDS[kind]
    )
    layout = dice.choice(LAYOUTS[split])
    title = words.titles[kind]
    text = _text(words, title, layout, facts, rows, style, dice)
    name = truths["number"] if not named_by_number else dice.choice(_FILES)
    file = f"{name}-{dice.choice(_SUFFIXES)}.pdf".replace("/", "-").lower()
    return Document(words.locale, kind, layout, file, style, facts, rows, text)


_FILES = ("scan", "inbox", "upload", "mail-attachment", "from-post", "archive")
_SUFFIXES = ("a", "b", "c", "d", "e", "f", "g", "h", "j", "k", "m", "n", "p", "q", "r", "s")


def _with_whole_year(locale: str) -> str:
    """Return the locale's way of writing a date in digits."""
    if locale in ("ja-JP", "zh-CN"):
        return "yyyy/MM/dd"
    if locale == "ko-KR":
        return "yyyy. M. d."
    if locale == "en-US":
        return "MM/dd/yyyy"
    if locale in ("en-GB", "fr-FR", "es-ES", "it-IT", "pt-BR", "el-GR"):
        return "dd/MM/yyyy"
    if locale == "sv-SE":
        return "yyyy-MM-dd"
    return "dd-MM-yyyy" if locale == "nl-NL" else "dd.MM.yyyy"


def _money(currency: str, dice: random.Random, most: int = 9000) -> Decimal:
    whole = Decimal(dice.randint(40, most))
    if currency in WITHOUT_CENTS:
        return whole * 10 + dice.randint(1, 9)
    return whole + Decimal(dice.randint(1, 99)) / 100


def _rows(
    words: Words, kind: str, style: Style, labels: dict[str, str], dice: random.Random
) -> tuple[tuple[Fact, ...], ...]:
    if kind not in COLUMNS:
        return ()
    made = []
    counts = dice.sample(range(2, 40), 3)
    for item, count in zip(dice.sample(words.items, 3), counts, strict=True):
        price = _money(words.currency, dice, 400)
        truths: dict[str, Truth] = {
            "item": item,
            "quantity": count,
            "price": price,
            "amount": price * count,
        }
        made.append(
            tuple(
                Fact(key, truths[key], style.text(key, truths[key]), labels[key])
                for key in COLUMNS[kind]
            )
        )
    return tuple(made)


def _truths(
    words: Words, kind: str, split: str, rows: Sequence[Sequence[Fact]], dice: random.Random
) -> dict[str, Truth]:
    first = dt.date(2025, 1, 1) + dt.timedelta(days=dice.randint(0, 600))
    later = [first + dt.timedelta(days=dice.randint(*range_)) for range_ in _LATER]
    amounts = [fact.truth for row in rows for fact in row if fact.key == "amount"]
    subtotal = sum((a for a in amounts if isinstance(a, Decimal)), Decimal(0))
    subtotal = subtotal or _money(words.currency, dice)
    cents = Decimal(1) if words.currency in WITHOUT_CENTS else Decimal("0.01")
    tax = (subtotal * words.rate / 100).quantize(cents)
    return {
        "number": _code(dice, ("R", "A", "K", "")[dice.randrange(4)]),
        "reference": _code(dice, ("PO", "B", "V")[dice.randrange(3)]),
        "account": " ".join(str(dice.randint(1000, 9999)) for _ in range(3)),
        "issued": first,
        "delivered": later[0],
        "due": later[1],
        "start": later[2],
        "end": later[3],
        "vendor": dice.choice(vendors_of(words, split)),
        "customer": dice.choice(words.customers),
        "contact": dice.choice(words.people),
        "subtotal": subtotal,
        "tax": tax,
        "total": subtotal + tax,
        **{key: _money(words.currency, dice) for key in ("fee", "deposit", "opening", "closing")},
    }


_LATER = ((2, 9), (14, 60), (61, 90), (400, 900))
"""Days after the first date: delivered, due, start, end."""


def _code(dice: random.Random, letters: str) -> str:
    digits = f"{dice.randint(10000, 99999)}"
    year = dice.choice(("25", "2025", "26"))
    form = dice.choice(("{l}-{y}-{d}", "{l}{y}/{d}", "{l}{d}"))
    return form.format(l=letters, y=year, d=digits).lstrip("-/")


def _text(
    words: Words, title: str, layout: str, facts: Sequence[Fact],
    rows: Sequence[Sequence[Fact]], style: Style, dice: random.Random,
) -> str:  # fmt: skip
    head = [title, ""]
    if style.money == "bare":
        head.insert(1, f"({words.currency})")
    amounts = [fact for fact in facts if fact.kind == "money"]
    others = [fact for fact in facts if fact.kind != "money"]
    if dice.random() < 0.5:
        others = dice.sample(others, len(others))
    parts = [
        *head, *_LAYOUT[layout](others, words), "", *_table(rows, layout), "",
        *_LAYOUT[layout](amounts, words), "", words.noise,
    ]  # fmt: skip
    return "\n".join(parts)


def _lines(facts: Sequence[Fact], _: Words) -> list[str]:
    return [f"{fact.label}: {fact.text}" for fact in facts]


def _columns(facts: Sequence[Fact], _: Words) -> list[str]:
    return [f"{fact.label:<28}{fact.text:>24}" for fact in facts]


def _pipes(facts: Sequence[Fact], _: Words) -> list[str]:
    return [f"| {fact.label} | {fact.text} |" for fact in facts]


def _above(facts: Sequence[Fact], _: Words) -> list[str]:
    return [line for fact in facts for line in (fact.label, fact.text)]


def _header_row(facts: Sequence[Fact], _: Words) -> list[str]:
    made: list[str] = []
    for at in range(0, len(facts), 4):
        part = facts[at : at + 4]
        wide = [max(len(fact.label), len(fact.text)) + 3 for fact in part]
        for cells in ([fact.label for fact in part], [fact.text for fact in part]):
            made.append("".join(f"{c:<{w}}" for c, w in zip(cells, wide, strict=True)).rstrip())
    return made


def _pairs(facts: Sequence[Fact], _: Words) -> list[str]:
    cells = [f"{fact.label}  {fact.text}" for fact in facts]
    return ["     ".join(cells[at : at + 2]) for at in range(0, len(cells), 2)]


def _prose(facts: Sequence[Fact], words: Words) -> list[str]:
    joined = " ".join(words.sentence.format(label=f.label, value=f.text) for f in facts)
    return [joined]


def _dotted(facts: Sequence[Fact], _: Words) -> list[str]:
    return [f"{fact.label} {'.' * max(3, 34 - len(fact.label))} {fact.text}" for fact in facts]


_LAYOUT = {
    "lines": _lines, "columns": _columns, "pipes": _pipes, "above": _above,
    "table": _header_row, "pairs": _pairs, "prose": _prose, "dotted": _dotted,
}  # fmt: skip


def _table(rows: Sequence[Sequence[Fact]], layout: str) -> list[str]:
    if not rows:
        return []
    cells = [[fact.label for fact in rows[0]], *([fact.text for fact in row] for row in rows)]
    if layout in ("pipes", "prose"):
        rule = "|" + " --- |" * len(rows[0])
        lines = ["| " + " | ".join(row) + " |" for row in cells]
        return [lines[0], rule, *lines[1:]]
    wide = [max(map(len, column)) + 3 for column in zip(*cells, strict=True)]
    return ["".join(f"{c:<{w}}" for c, w in zip(row, wide, strict=True)).rstrip() for row in cells]
