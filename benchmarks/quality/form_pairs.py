"""Pairs of records that mean the same and differ only in the form of the value or of its passage.

A score that is about what is true gives both the same chance of error.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from babel.dates import format_date

from benchmarks.quality.document_words import KEPT_APART, WORDS
from benchmarks.quality.documents import APART, TRAIN, Document, Fact, documents
from benchmarks.quality.structured_answers import DESCRIPTIONS, NAMES
from llmeval_sdk.model import Chunk, Record


PER_FORM = 22


@dataclass(frozen=True)
class Pair:
    """Two records of one meaning."""

    form: str
    locale: str
    plain: Record
    changed: Record


Change = Callable[[Fact, str, random.Random], tuple[object, str] | None]
"""A fact and its document's text -> another value or text; ``None`` where the form has none."""


def pairs(seed: int = 34) -> list[Pair]:
    """Return more than 300 pairs; the same for the same seed."""
    dice = random.Random(f"{seed} pairs")
    pool = [
        (locale, document)
        for locale in WORDS
        for split in (TRAIN, APART)
        if split == APART or locale not in KEPT_APART
        for document in documents(locale, 12, split, seed + 1)
    ]
    made: list[Pair] = []
    for form, (keys, change) in _CHANGES.items():
        dice.shuffle(pool)
        made += _of_documents(form, keys, change, pool, dice)
    return [*made, *_of_codes(dice)]


def _of_documents(
    form: str, keys: tuple[str, ...], change: Change,
    pool: list[tuple[str, Document]], dice: random.Random,
) -> Iterator[Pair]:  # fmt: skip
    count = 0
    for locale, document in pool:
        facts = [fact for fact in document.facts if fact.key in keys]
        if not facts or count == PER_FORM:
            continue
        fact = dice.choice(facts)
        text = document.text
        changed = change(fact, text, dice)
        if changed in (None, (fact.text, text)) or text.count(fact.text) != 1:
            continue
        value, other = changed
        count += 1
        yield Pair(
            form,
            locale,
            _record(document, fact, fact.text, text),
            _record(document, fact, value, other),
        )


def _record(document: Document, fact: Fact, value: object, text: str) -> Record:
    name = NAMES.get(fact.key, f"{document.kind}_{fact.key}")
    config = {"name": name, "description": DESCRIPTIONS.get(fact.key, "")}
    return Record(
        request=f"Extract {name} of {document.file}",
        value=value,
        retrieved_context=(Chunk(text, document.file, document.file),),
        field_config={key: text for key, text in config.items() if text},
        span_name="extract_field",
    )


def _broken(fact: Fact, text: str, _: random.Random) -> tuple[object, str] | None:
    if " " not in fact.text:
        return None
    return fact.text, text.replace(fact.text, fact.text.replace(" ", "\n", 1))


def _hyphenated(fact: Fact, text: str, _: random.Random) -> tuple[object, str] | None:
    word = next((w for w in fact.text.split() if len(w) > 7 and w.isalpha() and w[0] < "⺀"), None)
    if word is None:
        return None
    return fact.text, text.replace(fact.text, fact.text.replace(word, f"{word[:4]}-\n{word[4:]}"))


def _iso(fact: Fact, text: str, _: random.Random) -> tuple[object, str] | None:
    return str(fact.truth), text


def _written(fact: Fact, text: str, dice: random.Random) -> tuple[object, str] | None:
    locale = dice.choice(("en_US", "en_GB", "de_DE", "fr_FR", "it_IT"))
    return format_date(fact.truth, "long", locale=locale), text


def _plain_number(fact: Fact, text: str, dice: random.Random) -> tuple[object, str] | None:
    if not isinstance(fact.truth, Decimal):
        return None
    return dice.choice((float(fact.truth), f"{fact.truth}", f"{fact.truth:,}")), text


def _spaced(fact: Fact, text: str, dice: random.Random) -> tuple[object, str] | None:
    if " " not in fact.text:
        return None
    space = dice.choice(("  ", "\u00a0", "\u2009", "\t"))
    return fact.text, text.replace(fact.text, fact.text.replace(" ", space))


def _ligature(fact: Fact, text: str, _: random.Random) -> tuple[object, str] | None:
    other = fact.text
    for letters, one in (("ffi", "\ufb03"), ("fi", "\ufb01"), ("fl", "\ufb02"), ("ff", "\ufb00"),
                         ("st", "\ufb06")):  # fmt: skip
        other = other.replace(letters, one)
    return (fact.text, text.replace(fact.text, other)) if other != fact.text else None


def _decomposed(fact: Fact, text: str, _: random.Random) -> tuple[object, str] | None:
    import unicodedata

    other = unicodedata.normalize("NFD", fact.text)
    return (fact.text, text.replace(fact.text, other)) if other != fact.text else None


def _full_width(fact: Fact, text: str, _: random.Random) -> tuple[object, str] | None:
    wide = re.sub(r"[0-9]", lambda m: chr(ord(m[0]) + 0xFEE0), fact.text)
    return fact.text, text.replace(fact.text, wide)


def _upper(fact: Fact, text: str, _: random.Random) -> tuple[object, str] | None:
    return (fact.text.upper(), text) if fact.text.upper() != fact.text else None


_NAMED = ("vendor", "customer", "contact")
_DATED = ("issued", "due", "delivered", "start", "end")
_PAID = ("subtotal", "tax", "total", "fee", "deposit", "opening", "closing")
_CHANGES: Mapping[str, tuple[tuple[str, ...], Change]] = {
    "line break": (_NAMED, _broken),
    "hyphen": (_NAMED, _hyphenated),
    "ISO date": (_DATED, _iso),
    "date written elsewhere": (_DATED, _written),
    "plain number": (_PAID, _plain_number),
    "white space": (("vendor", "customer", "account", "total", "issued"), _spaced),
    "ligature": (_NAMED, _ligature),
    "decomposed letters": (_NAMED, _decomposed),
    "full-width digits": ((*_DATED, *_PAID), _full_width),
    "case": (_NAMED, _upper),
}

_CODED = {
    "licence": ("license", "Licence of the package", "Licensed under the {}.", (
        ("BSD 3-Clause License", "BSD-3-Clause"), ("MIT License", "MIT"),
        ("Apache License, Version 2.0", "Apache-2.0"),
        ("GNU General Public License v3.0", "GPL-3.0"), ("ISC License", "ISC"),
        ("Mozilla Public License 2.0", "MPL-2.0"),
    )),
    "country": ("country", "Country of the supplier", "Country of supply: {}", (
        ("Germany", "DE"), ("France", "FR"), ("Japan", "JP"), ("Deutschland", "DE"),
        ("España", "ES"), ("Italia", "IT"), ("Poland", "PL"), ("Österreich", "AT"),
        ("Norge", "NO"), ("Brasil", "BR"), ("日本", "JP"), ("Греция", "GR"),
    )),
    "currency": ("currency", "Currency of all amounts", "All amounts are in {}.", (
        ("euros", "EUR"), ("US dollars", "USD"), ("Swiss francs", "CHF"), ("pounds", "GBP"),
        ("yen", "JPY"), ("Schweizer Franken", "CHF"),
    )),
    "language": ("language", "Language of the manual", "Manual language: {}", (
        ("German", "de"), ("French", "fr"), ("Japanese", "ja"), ("Polski", "pl"),
        ("Español", "es"), ("Nederlands", "nl"),
    )),
    "unit": ("weight", "Gross weight", "Gross weight: {}", (
        ("12 kg", "12 kilograms"), ("750 g", "0.75 kg"), ("2.5 t", "2500 kg"),
        ("3,5 kg", "3.5 kg"), ("1 200 kg", "1.2 t"), ("48 h", "48 hours"),
    )),
    "boolean": ("auto_renewal", "Whether it is renewed by itself", "Automatic renewal: {}", (
        ("Yes", "true"), ("No", "false"), ("Ja", "true"), ("Nein", "false"), ("oui", "true"),
        ("yes", True), ("no", False), ("Sí", "true"), ("はい", "true"), ("Nee", False),
    )),
}  # fmt: skip
_AROUND = (
    "Delivery by road. {}\nThe goods are packed in crates.",
    "{}\nSigned by both sides and valid at once.",
    "Terms of the offer\n\n{}\n\nQuestions to the office in the yard.",
)


def _of_codes(dice: random.Random) -> Iterator[Pair]:
    """Yield pairs of a name that the passage has and of its code."""
    for form, (name, description, sentence, known) in _CODED.items():
        for written, code in known:
            for around in dice.sample(_AROUND, 2):
                text = around.format(sentence.format(written))
                yield Pair(form, "", *(_coded(name, description, v, text) for v in (written, code)))


def _coded(name: str, description: str, value: object, text: str) -> Record:
    return Record(
        request=f"What is the {name.replace('_', ' ')}?",
        value=value,
        retrieved_context=(Chunk(text, "terms.txt", "1"),),
        field_config={"name": name, "description": description},
        span_name="extract_field",
    )
