"""Generated commercial contracts in English, and answers to questions about their clauses.

A contract is prose: its values stand in the middle of sentences, under the headings of articles and
beside values of their kind that mean something else. An answer quotes the value, writes it in a
normal form, or gives the whole sentence, as models do. Each error has a kind. Two splits share no
wording, company, person or kind of contract (`contract_words`).
"""

from __future__ import annotations

import calendar
import datetime as dt
import random
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import log
from typing import NamedTuple

from benchmarks.quality.contract_fields import ASKED
from benchmarks.quality.contract_words import (
    COMMONWEALTHS,
    CONTRACT_WORDS,
    STATES,
    TOWNS,
    ContractWords,
)
from benchmarks.quality.documents import APART, Document, Fact, Style
from benchmarks.quality.structured_answers import EMPTY, RIGHT, WRONG_SHARE, Answer, Given
from llmeval_sdk.model import Chunk


ERRORS = {
    "neighbour": 0.36, "document": 0.13, "invented": 0.11, "dropped": 0.09, "transposed": 0.06,
    "role": 0.20, "truncated": 0.10, "overlong": 0.08,
}  # fmt: skip
"""Kind of error -> its weight, where a value of its kind can have it."""
UNSTATED = "unstated"
"""The error of a value for a field of which the contract says nothing."""
KINDS = (*ERRORS, UNSTATED)
UNSTATED_SHARE = 0.5
"""How often such a field gets a value, beside how often another one gets a wrong one."""
FORMS = {
    "verbatim": 0.30,
    "fragment": 0.15,
    "normalised": 0.35,
    "sentence": 0.20,
}
QUESTIONS, PASSAGES, MOST_PASSAGES = 9, 5, 14
RETRIEVED = 0.95
"""How often the passage that states a value is among those of its question."""
SMALLEST, LARGEST = 700, 1200
"""Characters of a passage."""
CONFUSED = {
    "agreement_date": ("effective_date", "signed_date"),
    "effective_date": ("agreement_date", "signed_date"),
    "expiration_date": ("effective_date", "agreement_date"),
    "initial_term": ("renewal_term",),
    "renewal_term": ("initial_term", "notice_period"),
    "notice_period": ("cure_period", "convenience_notice", "renewal_term"),
    "convenience_notice": ("cure_period", "notice_period"),
    "cure_period": ("convenience_notice", "payment_terms"),
    "payment_terms": ("cure_period", "deemed_notice"),
    "warranty_duration": ("initial_term", "records_period", "confidentiality_term"),
    "liability_cap": ("insurance", "minimum_commitment"),
    "insurance": ("liability_cap",),
    "minimum_commitment": ("liability_cap", "insurance"),
    "revenue_share": ("late_interest",),
    "governing_law": ("state_a", "state_b"),
    "audit_rights": ("exclusivity", "termination"),
    "exclusivity": ("termination", "audit_rights"),
}
"""Field -> values that are most often taken for its own."""
_CONFUSED_SHARE = 0.75
_STANDS_FOR = {
    "agreement_date": "effective_date",
    "effective_date": "agreement_date",
    "expiration_date": "initial_term",
}
"""Field -> the value that answers it where the contract has none of its own: a contract that is
made as of its effective date, and one that ends a number of years after it."""
_BARE_NUMBERS = ("cure_period", "payment_terms")
"""Fields of which a number alone may be right, because it is usually one of days."""
_FREE = frozenset(("text", "title"))
_EXTRA = ("first_party", "second_party")
_BLANK_SHARE = 0.06
_MARK = 0xE000
"""The private characters from here on mark where a value stands, until the passages are cut."""

Value = dt.date | Decimal | tuple[int, str] | tuple[str, ...] | str


@dataclass(frozen=True)
class Term(Fact):
    """One value of a contract, with the sentence that states it."""

    of: str = ""
    """Which kind of value it is; values of one kind may be taken for each other."""
    value: Value = ""
    style: int = 0
    sentence: str = ""

    @property
    def kind(self) -> str:
        return self.of


@dataclass(frozen=True)
class Contract:
    """A contract, its passages, and the values that each of them states."""

    document: Document
    split: str
    terms: dict[str, Term]
    chunks: tuple[Chunk, ...]
    states: tuple[frozenset[str], ...]
    """Of each passage: the keys of the values in it."""
    words: tuple[frozenset[str], ...]


def contracts(count: int, split: str, seed: int = 34) -> list[Contract]:
    """Return contracts of a split; the same for the same arguments."""
    dice = random.Random(f"{seed} contracts {split}")
    return [_contract(number, split, dice) for number in range(count)]


# How values are written.

_ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["_", "_", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def in_words(number: int) -> str:
    """Write a whole number in English words."""
    for size, name in ((1_000_000, "million"), (1_000, "thousand"), (100, "hundred")):
        if number >= size:
            rest = f" {in_words(number % size)}" if number % size else ""
            return f"{in_words(number // size)} {name}{rest}"
    if number < 20:
        return _ONES[number]
    return _TENS[number // 10] + (f"-{_ONES[number % 10]}" if number % 10 else "")


def written(kind: str, value: Value, style: int) -> str:
    """Write a value as contracts do, in one of four styles."""
    if isinstance(value, dt.date):
        month, day = calendar.month_name[value.month], value.day
        end = "th" if 10 < day < 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
        return (
            f"{month} {day}, {value.year}",
            f"the {day}{end} day of {month}, {value.year}",
            f"{month} {day}{end}, {value.year}",
            f"{day} {month} {value.year}",
        )[style % 4]
    if isinstance(value, Decimal) and kind == "percent":
        if value != value.to_integral_value():
            return f"{value}%"
        word = in_words(int(value))
        return (f"{value}%", f"{word} percent ({value}%)", f"{word} ({value}%) percent")[style % 3]
    if isinstance(value, Decimal):
        dollars = f"{value:,.0f}"
        if style % 4 == 3 and value >= 1_000_000 and value % 100_000 == 0:
            return f"${value / 1_000_000:f} million".replace("00000 ", " ").replace(".0 ", " ")
        word = in_words(int(value)).title()
        return (f"{word} Dollars (${dollars})", f"${dollars}", f"US${dollars}.00", f"${dollars}")[
            style % 4
        ]
    if kind == "duration":
        number, unit = value
        unit = unit if number == 1 else f"{unit}s"
        word = in_words(int(number))
        return (f"{word} ({number}) {unit}", f"{number} {unit}", f"{word} {unit}",
                f"{word} ({number}) {unit}")[style % 4]  # fmt: skip
    if kind == "state":
        title = "Commonwealth" if value in COMMONWEALTHS else "State"
        return (f"the {title} of {value}", f"{value}", f"the {title} of {value}")[style % 3]
    return " and ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def normalised(kind: str, value: Value, dice: random.Random) -> object:
    """Write a value as models do that were asked for a normal form."""
    if isinstance(value, dt.date):
        return dice.choice((value.isoformat(), value.isoformat(), written(kind, value, 0),
                            value.strftime("%m/%d/%Y")))  # fmt: skip
    if isinstance(value, Decimal) and kind == "percent":
        return dice.choice((f"{value}%", f"{value} percent"))
    if isinstance(value, Decimal):
        return dice.choice((f"${value:,.0f}", f"USD {value:,.0f}", f"{value:,.2f} USD", int(value)))
    if kind == "duration":
        return written(kind, value, 1)
    if kind == "state":
        title = "Commonwealth" if value in COMMONWEALTHS else "State"
        return dice.choice((f"{value}", f"{value}", f"{title} of {value}", f"{value}, USA"))
    if kind == "parties":
        return dice.choice((list(value), list(value), "; ".join(value), " and ".join(value)))
    return value


def answered(term: Term, value: Value, form: str, dice: random.Random) -> object:
    """Write a value in the place of a term, in one of `FORMS`."""
    text = term.text if value == term.value else written(term.kind, value, term.style)
    if term.kind in ("name", "person", "parties", "title"):
        return normalised(term.kind, value, dice)
    if term.kind == "text":
        return _shortened(text, dice) if form in ("normalised", "fragment") else text
    if form == "normalised":
        return normalised(term.kind, value, dice)
    if form == "sentence" and term.sentence:
        return term.sentence.replace(term.text, text)
    if form == "fragment" and term.text in term.sentence:
        before = term.sentence[: term.sentence.index(term.text)].split()
        return " ".join([*before[-dice.randint(2, 8) :], text])
    return text


def _shortened(text: str, dice: random.Random) -> str:
    """Leave out the end of a sentence behind one of its commas, and keep what it says.

    What ends in the middle of a phrase is an error: `_truncated`.
    """
    least = len(text) * 0.5
    commas = [at for at, letter in enumerate(text) if letter in ",;" and at >= least]
    return text[: dice.choice(commas)] if commas else text


# A contract.


def _contract(number: int, split: str, dice: random.Random) -> Contract:
    words = CONTRACT_WORDS[split]
    title, role_a, role_b, product = words.kinds[number % len(words.kinds)]
    first, second = dice.sample(words.companies, 2)
    terms = _terms(title, role_a, first, second, words, dice)
    fill = _fill(title, role_a, role_b, product, first, second, terms, words, dice)
    parts = _paragraphs(words, terms, fill, split, dice)
    marked = "\n\n".join(parts)
    present = frozenset(_keys_in(marked, terms))
    stated = {key: term for key, term in terms.items() if key in present}
    others = {key: source for key, source in _STANDS_FOR.items()
              if key not in stated and source in stated}  # fmt: skip
    stated |= {key: replace(stated[source], key=key) for key, source in others.items()}
    file = f"{first.split()[0].lower()}-{title.split()[0].lower()}-{number:03}.txt"
    chunks, states = [], []
    for place, text in enumerate(_cut(parts)):
        keys = set(_keys_in(text, terms))
        keys |= {key for key, source in others.items() if source in keys}
        states.append(frozenset(keys))
        chunks.append(Chunk(_plain(text), file, f"{file}#{place}"))
    document = Document(
        "en-US", title, split, file, Style("en_US", "USD", "long", "before"),
        tuple(stated.values()), (), _plain(marked),
    )  # fmt: skip
    return Contract(
        document, split, stated, tuple(chunks), tuple(states),
        tuple(frozenset(_words(chunk.content)) for chunk in chunks),
    )  # fmt: skip


def _terms(
    title: str, role: str, first: str, second: str, words: ContractWords, dice: random.Random
) -> dict[str, Term]:
    agreed = dt.date(dice.randint(1997, 2021), dice.randint(1, 12), dice.randint(1, 28))
    effective = agreed + dt.timedelta(days=dice.choice((-20, 11, 17, 28, 33, 61, 90)))
    states = dice.sample(STATES, 3)
    people = dice.sample(words.people, 2)
    values: dict[str, tuple[str, Value]] = {
        "document_name": ("title", title),
        "parties": ("parties", (first, second)),
        "first_party": ("name", first),
        "second_party": ("name", second),
        "signatory": ("person", people[0]),
        "other_signatory": ("person", people[1]),
        "agreement_date": ("date", agreed),
        "effective_date": ("date", effective),
        "signed_date": ("date", agreed + dt.timedelta(days=dice.randint(1, 9))),
        "expiration_date": ("date", effective + dt.timedelta(days=dice.randint(300, 3700))),
        "initial_term": ("duration", dice.choice(_TERMS)),
        "renewal_term": ("duration", dice.choice(_RENEWALS)),
        **{key: ("duration", dice.choice(choices)) for key, choices in _PERIODS.items()},
        "revenue_share": ("percent", Decimal(dice.choice(_SHARES))),
        "late_interest": ("percent", Decimal(dice.choice(("1", "1.5", "2")))),
        "minimum_commitment": ("money", _money(dice)),
        "liability_cap": ("money", _money(dice)),
        "insurance": ("money", Decimal(dice.choice((1, 2, 3, 5, 10)) * 1_000_000)),
        "governing_law": ("state", states[0] if dice.random() < 0.6 else states[1]),
        "state_a": ("state", states[1]),
        "state_b": ("state", states[2]),
        "audit_rights": ("text", ""),
        "exclusivity": ("text", ""),
        "termination": ("text", ""),
    }
    made = {}
    for key, (kind, value) in values.items():
        style = dice.randrange(12)
        text = written(kind, value, style)
        if key == "agreement_date" and dice.random() < _BLANK_SHARE:
            month = calendar.month_name[agreed.month]
            text = dice.choice((f"___ day of {month}, {agreed.year}", f"{month} __, {agreed.year}"))
            made[key] = Term(key, text, text, "", kind, text, style)
            continue
        made[key] = Term(key, text, text, role if key == "first_party" else "", kind, value, style)
    for key in ("state_a", "state_b"):
        made[key] = replace(made[key], text=str(made[key].value))
    return made


_TERMS = ((1, "year"), (2, "year"), (3, "year"), (4, "year"), (5, "year"), (7, "year"),
          (10, "year"), (18, "month"), (24, "month"), (36, "month"))  # fmt: skip
_RENEWALS = ((1, "year"), (1, "year"), (2, "year"), (12, "month"), (6, "month"), (3, "year"))
_PERIODS = {
    "notice_period": ((30, "day"), (60, "day"), (90, "day"), (120, "day"), (180, "day"),
                      (6, "month")),
    "convenience_notice": ((30, "day"), (60, "day"), (90, "day"), (45, "day"), (3, "month")),
    "cure_period": ((30, "day"), (15, "day"), (10, "day"), (60, "day"), (45, "day")),
    "payment_terms": ((30, "day"), (45, "day"), (60, "day"), (15, "day"), (75, "day")),
    "warranty_duration": ((12, "month"), (1, "year"), (90, "day"), (18, "month"), (24, "month"),
                          (2, "year")),
    "confidentiality_term": ((2, "year"), (3, "year"), (5, "year"), (7, "year")),
    "records_period": ((2, "year"), (3, "year"), (5, "year"), (6, "year")),
    "deemed_notice": ((3, "day"), (5, "day"), (2, "day"), (7, "day")),
}  # fmt: skip
_SHARES = ("3", "4", "5", "6", "7.5", "8", "10", "12", "12.5", "15", "20", "25", "35", "50")


def _money(dice: random.Random) -> Decimal:
    return Decimal(dice.choice((25, 50, 75, 100, 125, 150, 250, 350, 480, 500, 750, 900, 1200,
                                1500, 2000, 3000))) * 1000  # fmt: skip


def _fill(
    title: str, role_a: str, role_b: str, product: str, first: str, second: str,
    terms: dict[str, Term], words: ContractWords, dice: random.Random,
) -> dict[str, str]:  # fmt: skip
    """Return what the wordings have their holes filled with, the values behind their marks."""
    fill = {key: f"{_mark(key, terms)}{term.text}" for key, term in terms.items()}
    here, there = dice.sample(words.places, 2)
    states = [(fill[key], str(terms[key].value)) for key in ("state_a", "state_b")]
    a, b = (f"a{'n' * (s[0] in 'IO')} {text} corporation" for text, s in states)
    signs = (_mark("first_party", terms), _mark("second_party", terms))
    return fill | {
        "title": _mark("document_name", terms) + title,
        "TITLE": _mark("document_name", terms) + title.upper(),
        "A": f"{_mark('parties', terms)}{signs[0]}{first}",
        "B": f"{_mark('parties', terms)}{signs[1]}{second}",
        "a": role_a, "b": role_b, "product": product, "aa": here, "ba": there,
        "ad": dice.choice((f"{a} having its principal place of business at {here}", a,
                           f"{a} with offices at {here}")),
        "bd": dice.choice((f"{b} whose address is {there}", b, f"{b} located at {there}")),
        "ap": str(terms["signatory"].value), "bp": str(terms["other_signatory"].value),
        "venue": TOWNS.get(str(terms["governing_law"].value), "the county seat"),
    }  # fmt: skip


def _paragraphs(
    words: ContractWords, terms: dict[str, Term], fill: dict[str, str], split: str,
    dice: random.Random,
) -> list[str]:  # fmt: skip
    """Write a contract as paragraphs; the sentences of its values are noted in ``terms``."""

    def opening(clause: str) -> str:
        return _said(dice.choice(words.clauses[clause]), "", terms, fill)

    def said(clause: str) -> str:
        wording = dice.choice(words.clauses[clause])
        own = {"audit": "audit_rights"}.get(clause, clause)
        more = dice.sample(words.clauses["filler"], dice.choice((0, 0, 1, 1, 2)))
        parts = (_said(wording, own, terms, fill), *(_said(one, "", terms, fill) for one in more))
        return " ".join(parts)

    articles: list[tuple[str, str]] = []
    is_effective = dice.random() < 0.45
    head = opening("preamble_effective" if is_effective else "preamble")
    if not is_effective and dice.random() < 0.85:
        articles.append(("effective", said("effective")))
    rights = "exclusivity" if dice.random() < 0.55 else "nonexclusive"
    articles.append((rights, said(rights)))
    length = "initial" if dice.random() < 0.6 else "dated"
    renewal = f" {said('renewal')}" if dice.random() < 0.75 else ""
    articles.append((length, said(length) + renewal))
    for clause, share in _OPTIONAL.items():
        if dice.random() < share:
            articles.append((clause, said(clause)))
    boiler = dice.sample(words.clauses["boiler"], dice.randint(7, 12))
    while boiler:
        size = dice.randint(1, 3)
        text = "\n\n".join(_said(one, "", terms, fill) for one in boiler[:size])
        articles.insert(dice.randint(2, len(articles)), ("boiler", text))
        boiler = boiler[size:]
    if dice.random() < 0.5:
        articles[2:] = dice.sample(articles[2:], len(articles) - 2)
    heading = dice.choice(_HEADINGS[split])
    parts = [f"{fill['TITLE']}", head, dice.choice(_RECITALS[split])]
    for place, (clause, text) in enumerate(articles, start=1):
        name = dice.choice(words.titles[clause])
        parts += heading.format(n=place, name=name, NAME=name.upper(), text=text).split("\n\n")
    parts += _signatures(terms, fill, dice)
    parts += _exhibit(terms, fill, split, dice)
    return _as_pages(parts, terms, split, dice)


_OPTIONAL = {
    "minimum": 0.5, "payment": 0.9, "royalty": 0.55, "audit": 0.6, "warranty": 0.65,
    "insurance": 0.6, "cap": 0.65, "confidentiality": 0.8, "termination": 0.6, "cure": 0.8,
    "law": 0.97, "notices": 0.85,
}  # fmt: skip
"""Clause -> how many contracts have it."""
_HEADINGS = {
    "train": ("{n}. {name}. {text}", "{n}. {NAME}\n\n{text}", "{n}.1 {name}. {text}"),
    "apart": ("Section {n}. {name}.  {text}", "ARTICLE {n}\n{NAME}\n\n{n}.01 {text}",
              "{n}) {name} - {text}"),
}  # fmt: skip
_RECITALS = {
    "train": (
        (
            "WHEREAS, the parties desire to set forth the terms of their relationship; NOW,"
            " THEREFORE, in consideration of the mutual covenants herein, the parties agree:"
        ),
        (
            "In consideration of the promises made below, and for other good and valuable"
            " consideration, the receipt of which is acknowledged, the parties hereto agree:"
        ),
    ),
    "apart": (
        (
            "RECITALS. Each party has full power to enter into this Contract and has had the"
            " advice of counsel. Intending to be legally bound, they covenant as set forth below."
        ),
        (
            "The parties, having discussed the transactions described herein, and for value"
            " received, covenant with each other as follows:"
        ),
    ),
}


def _said(wording: str, own: str, terms: dict[str, Term], fill: dict[str, str]) -> str:
    """Fill a wording, and note in ``terms`` which of its sentences states which value."""
    made = []
    for sentence in re.split(r"(?<=\.) (?=[A-Z{*\"])", wording):
        text = re.sub(r"(year|month|day)s periods", r"\1 periods", _filled(sentence, fill))
        if text.startswith("*"):
            text = _mark(own, terms) + text[1:]
            plain = _plain(text)
            terms[own] = replace(terms[own], truth=plain, text=plain, value=plain, sentence=plain)
        for key in _keys_in(text, terms):
            if terms[key].kind != "text" and not terms[key].sentence:
                terms[key] = replace(terms[key], sentence=_plain(text))
        made.append(text)
    return " ".join(made)


def _filled(sentence: str, fill: dict[str, str]) -> str:
    text = sentence.format_map(fill)
    return text[0].upper() + text[1:] if text[0].isalpha() else text


def _mark(key: str, terms: dict[str, Term]) -> str:
    return chr(_MARK + list(terms).index(key))


def _keys_in(text: str, terms: dict[str, Term]) -> Iterator[str]:
    keys = list(terms)
    yield from (keys[ord(c) - _MARK] for c in text if _MARK <= ord(c) < _MARK + len(keys))


def _plain(text: str) -> str:
    return re.sub("[\ue000-\uf8ff]", "", text)


def _signatures(terms: dict[str, Term], fill: dict[str, str], dice: random.Random) -> list[str]:
    date = dice.choice((fill["signed_date"], "____________"))
    blocks = [
        f"{fill[side]}\nBy: {sign}\nName: {fill[person]}\nTitle: {title}\nDate: {date}"
        for side, person, sign, title in (
            ("A", "signatory", "/s/ " + fill["ap"], "Chief Executive Officer"),
            ("B", "other_signatory", "______________________", "Vice President"),
        )
    ]
    return ["IN WITNESS WHEREOF, duly authorized officers have signed below.", *blocks]


def _exhibit(
    terms: dict[str, Term], fill: dict[str, str], split: str, dice: random.Random
) -> list[str]:
    prices = [f"Item {n}: ${dice.randint(20, 990)}.00 per unit" for n in range(1, 6)]
    head = {"train": "EXHIBIT A", "apart": "SCHEDULE A"}[split]
    revised = written("date", dt.date(dice.randint(1997, 2021), 6, dice.randint(1, 28)), 0)
    return [f"{head}\n{fill['product'].upper()}", "\n".join(prices), f"Price list of {revised}."]


_PAGE = 1_500
"""Characters of a page, where a contract has headers of pages."""


def _as_pages(
    parts: Sequence[str], terms: dict[str, Term], split: str, dice: random.Random
) -> list[str]:
    """Break the lines of some contracts, and put headers of pages between their paragraphs."""
    width = dice.choice((0, 0, 72, 88))
    header = dice.choice(("", {"train": "[Page {n}]", "apart": "- {n} -\nCONFIDENTIAL"}[split]))
    made: list[str] = []
    size, page = 0, 1
    for part in parts:
        text = (
            part
            if not width or part.count("\n") > 1
            else textwrap.fill(part, width, break_on_hyphens=False)
        )
        made.append(text)
        size += len(text)
        if header and size > _PAGE * page:
            page += 1
            made.append(header.format(n=page))
    return made


def _cut(parts: Sequence[str]) -> Iterator[str]:
    """Cut a contract into passages at the ends of paragraphs."""
    kept: list[str] = []
    for part in parts:
        size = sum(map(len, kept))
        if size >= SMALLEST or (kept and size + len(part) > LARGEST):
            yield "\n\n".join(kept)
            kept = []
        kept.append(part)
    if kept:
        yield "\n\n".join(kept)


# Answers.


class Made(NamedTuple):
    """What an app answered: the kind of error, or ``right``, and the value."""

    kind: str
    value: object


def contract_questions(
    count: int, split: str = APART, wrong: float = WRONG_SHARE, seed: int = 34
) -> list[Answer]:
    """Return answers to single questions about contracts, each over passages of its own."""
    pool = contracts(count, split, seed)
    dice = random.Random(f"{seed} questions {split} {wrong}")
    return [one for contract in pool for one in _questions(contract, pool, wrong, dice)]


def contract_objects(
    count: int, split: str = APART, wrong: float = WRONG_SHARE, seed: int = 34
) -> list[Answer]:
    """Return one object for each contract, with a part of its fields."""
    pool = contracts(count, split, seed)
    dice = random.Random(f"{seed} objects {split} {wrong}")
    return [_object(contract, pool, wrong, dice) for contract in pool]


def _wanted(contract: Contract, dice: random.Random) -> list[str]:
    keys = [*ASKED[contract.split], "first_party"]
    return dice.sample(keys, dice.randint(QUESTIONS, QUESTIONS + 5))


def _questions(
    contract: Contract, pool: Sequence[Contract], wrong: float, dice: random.Random
) -> Iterator[Answer]:
    other = dice.choice([one for one in pool if one is not contract])
    for key in _wanted(contract, dice):
        form = dice.choices(list(FORMS), list(FORMS.values()))[0]
        made = _answer(key, contract, other, form, wrong, dice)
        if made.kind == EMPTY:
            continue
        question, given, description = _asked(key, contract, made, dice)
        chunks = _retrieved(key, question, contract, other, made.kind, dice)
        yield Answer(
            contract.document, question, chunks, (given,), dice.random() < 0.6,
            {key: description},
        )  # fmt: skip


def _object(
    contract: Contract, pool: Sequence[Contract], wrong: float, dice: random.Random
) -> Answer:
    other = dice.choice([one for one in pool if one is not contract])
    form = dice.choices(list(FORMS), (0.35, 0.15, 0.45, 0.05))[0]
    given, descriptions, wanted = [], {}, set()
    for key in _wanted(contract, dice):
        made = _answer(key, contract, other, form, wrong, dice)
        _, one, descriptions[key] = _asked(key, contract, made, dice)
        given.append(one)
        if dice.random() < RETRIEVED:
            wanted.add(key)
    own = [chunk for chunk, keys in zip(contract.chunks, contract.states, strict=True)
           if keys & wanted][: MOST_PASSAGES - 2]  # fmt: skip
    beside = dice.sample(other.chunks, 2) if dice.random() < 0.6 else []
    title = contract.document.kind
    request = dice.choice((f"Extract the terms of the {title}.", "Read the contract.",
                           f"Extract the terms of {contract.document.file}"))  # fmt: skip
    return Answer(
        contract.document, request, (*own, *beside), tuple(given), dice.random() < 0.6,
        descriptions,
    )  # fmt: skip


def _asked(key: str, contract: Contract, made: Made, dice: random.Random) -> tuple[str, Given, str]:
    """Return the question for a value, the value, and the description of its field."""
    term = contract.terms.get(key)
    truth = None if term is None else term.text
    if key == "first_party":
        role = contract.terms[key].label
        asked = f"Who is the {role}?"
        return (
            asked,
            Given(role.lower(), role.lower(), key, made.value, truth, made.kind),
            (f"Name of the {role}"),
        )
    asked_for = ASKED[contract.split][key]
    name, question = asked_for.name, dice.choice(asked_for.questions)
    if dice.random() < 0.25:
        question = f"{question} ({contract.document.file})"
    return question, Given(name, name, key, made.value, truth, made.kind), asked_for.description


def _answer(
    key: str, contract: Contract, other: Contract, form: str, wrong: float, dice: random.Random
) -> Made:
    term = contract.terms.get(key)
    if term is None:
        if dice.random() >= wrong * UNSTATED_SHARE:
            return Made(EMPTY, None)
        found = _neighbour(key, _kind_of(key), contract, dice)
        return (
            Made(UNSTATED, answered(found, found.value, form, dice)) if found else Made(EMPTY, None)
        )
    if dice.random() >= wrong:
        return Made(RIGHT, answered(term, term.value, form, dice))
    return _error(term, contract, other, form, dice)


def _kind_of(key: str) -> str:
    """Return the kind of the values of a field, also where a contract has none."""
    sample = _terms("", "", "a", "b", CONTRACT_WORDS["train"], random.Random(0))
    return sample[key].kind


def _error(
    term: Term, contract: Contract, other: Contract, form: str, dice: random.Random
) -> Made:  # fmt: skip
    """Return a kind of error and its value, which is not the right one."""
    for kind in dice.choices(list(ERRORS), list(ERRORS.values()), k=30):
        value = _wrong(kind, term, contract, other, form, dice)
        if value is None:
            continue
        is_whole = kind in ("truncated", "overlong") or term.kind == "parties"
        if _key(value) != _key(term.text) and (is_whole or _key(term.text) not in _key(value)):
            return Made(kind, value)
    return Made("invented", f"{term.text} 9")


def _wrong(
    kind: str, term: Term, contract: Contract, other: Contract, form: str, dice: random.Random
) -> object:
    if kind == "neighbour":
        found = _neighbour(term.key, term.kind, contract, dice)
        if term.kind == "parties":
            one = dice.choice((contract.terms["signatory"], contract.terms["other_signatory"]))
            return [dice.choice(term.value), one.value]
        return None if found is None else answered(found, found.value, form, dice)
    if kind == "document":
        theirs = other.terms.get(term.key)
        is_same = theirs is None or _same(theirs.value, term.value)
        return None if is_same else answered(theirs, theirs.value, form, dice)
    if kind == "role":
        return _role(term, contract, dice)
    if kind == "truncated":
        return _truncated(term, dice)
    if kind == "overlong":
        return _overlong(term, contract)
    value = _changed(kind, term, contract, dice)
    return None if value is None or value == term.value else answered(term, value, form, dice)


def _neighbour(key: str, kind: str, contract: Contract, dice: random.Random) -> Term | None:
    own = contract.terms.get(key)
    kinds = {"name": ("name", "person")}.get(kind, (kind,))
    near = [
        term
        for term in contract.terms.values()
        if term.key != key and term.kind in kinds and not (own and _same(term.value, own.value))
    ]
    usual = [term for term in near if term.key in CONFUSED.get(key, ())]
    near = usual if usual and dice.random() < _CONFUSED_SHARE else near
    return dice.choice(near) if near else None


def _same(one: Value, other: Value) -> bool:
    return _in_days(one) == _in_days(other)


def _in_days(value: Value) -> object:
    """Bring a duration to days or months, so that a year is twelve months."""
    if isinstance(value, tuple) and len(value) == 2 and value[1] in ("year", "month"):
        return int(value[0]) * (12 if value[1] == "year" else 1), "month"
    return value


def _role(term: Term, contract: Contract, dice: random.Random) -> object:
    role = contract.terms["first_party"].label
    if term.kind == "name":
        return dice.choice((role, f"the {role}", "the Company"))
    return [role, "the other party"] if term.kind == "parties" else None


def _truncated(term: Term, dice: random.Random) -> object:
    """Leave out what a value cannot do without."""
    value, text = term.value, term.text
    if isinstance(value, dt.date):
        return f"{calendar.month_name[value.month]} {value.year}"
    if term.kind == "duration":
        return None if term.key in _BARE_NUMBERS else text.rsplit(" ", 1)[0]
    if term.kind == "money":
        return f"${value:,.0f}".rsplit(",", 1)[0]
    if term.kind == "parties":
        return [dice.choice(value)]
    if term.kind in ("name", "text"):
        words = text.split()
        return " ".join(words[: 1 if term.kind == "name" else dice.randint(3, 5)])
    return "Agreement" if term.kind == "title" else None


def _overlong(term: Term, contract: Contract) -> object:
    """Let a value go on into the next clauses."""
    text = contract.document.text
    start = text.find(term.text)
    if term.kind in _FREE or start < 0:
        return None
    return " ".join(text[start : start + 700].rsplit(" ", 1)[0].split())


def _changed(kind: str, term: Term, contract: Contract, dice: random.Random) -> Value | None:
    """Invent a value, or misread one of its figures."""
    value = term.value
    if kind == "invented":
        return _invented(term, contract, dice)
    if isinstance(value, dt.date):
        if kind == "transposed":
            return dt.date(value.year, value.day, value.month) if value.day <= 12 else None
        return value.replace(day=value.day % 10) if value.day > 10 and value.day % 10 else None
    if isinstance(value, Decimal):
        digits = _misread(f"{value:f}", kind)
        return Decimal(digits) if digits else None
    if term.kind == "duration":
        digits = _misread(str(value[0]), kind)
        return (int(digits), str(value[1])) if digits and int(digits) else None
    return None


def _misread(figures: str, kind: str) -> str:
    """Drop a digit, or let two change places; empty where nothing changes."""
    if len(figures) < 2:
        return ""
    if kind == "dropped":
        return figures[:-1].rstrip(".")
    made = figures[1] + figures[0] + figures[2:]
    return "" if made == figures or made[0] in "0." else made


def _invented(term: Term, contract: Contract, dice: random.Random) -> Value | None:
    value = term.value
    if isinstance(value, dt.date):
        return value + dt.timedelta(days=dice.choice((-400, -200, 11, 100, 370)))
    if isinstance(value, Decimal):
        return value + (Decimal(dice.randint(1, 9)) if term.kind == "percent" else
                        Decimal(dice.randint(3, 400) * 1000))  # fmt: skip
    if term.kind == "duration":
        return int(value[0]) + dice.choice((1, 4, 8, 20)), str(value[1])
    text = contract.document.text
    words = CONTRACT_WORDS[contract.split]
    if term.kind == "text":
        clause = {"audit_rights": "audit"}.get(term.key, term.key)
        fill = dict.fromkeys(("a", "b"), "the Company") | {"product": "goods"}
        fill |= dict.fromkeys(contract.terms, "five (5) years") | {"records_period": "nine years"}
        others = [s[1:].format_map(fill) for wording in words.clauses[clause]
                  for s in re.split(r"(?<=\.) (?=\*)", wording) if s.startswith("*")]  # fmt: skip
        fresh = [one for one in others if one[:40] not in text]
        return dice.choice(fresh) if fresh else None
    if term.kind == "parties":
        fresh = [name for name in words.companies if name not in text]
        return value[0], dice.choice(fresh)
    choices = {"state": STATES, "name": words.companies, "title": [k[0] for k in words.kinds]}
    fresh = [one for one in choices.get(term.kind, ()) if one not in text]
    return dice.choice(fresh) if fresh else None


def _key(value: object) -> str:
    return re.sub(r"\W", "", str(value)).lower()


def _retrieved(
    key: str, question: str, contract: Contract, other: Contract, kind: str, dice: random.Random
) -> tuple[Chunk, ...]:
    """Return the passages of a question, those first that share most words with it."""
    theirs = dice.choice((0, 0, 0, 1, 2)) or (kind == "document")
    chosen = [
        *_ranked(key, question, contract, is_found=dice.random() < RETRIEVED)[: PASSAGES - theirs],
        *_ranked(key, question, other, is_found=kind == "document")[:theirs],
    ]
    chosen.sort(key=lambda pair: -pair[0])
    return tuple(chunk for _, chunk in chosen)


def _ranked(
    key: str, question: str, contract: Contract, *, is_found: bool
) -> list[tuple[float, Chunk]]:
    """Rank the passages of a contract for a question; that of the value comes first if found."""
    having = Counter(word for words in contract.words for word in words)
    asked = set(_words(question))
    ranked = []
    for chunk, words, keys in zip(contract.chunks, contract.words, contract.states, strict=True):
        score = sum(log(1 + len(contract.words) / having[word]) for word in asked & words)
        if key in keys:
            if not is_found:
                continue
            ranked.append((True, score, chunk))
        else:
            ranked.append((False, score, chunk))
    ranked.sort(key=lambda one: (not one[0], -one[1]))
    return [(score, chunk) for _, score, chunk in ranked]


def _words(text: str) -> list[str]:
    return [word[:6] for word in re.findall(r"[a-z]{4,}", text.lower())]
