"""The words that values are written with in many languages, read from tables when first needed.

The tables hold folded words (`text.folding`): names of months and weekdays, and the names of
countries, currencies and languages by their codes. Words for yes and no, and the names of licences,
stand here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Calendar(NamedTuple):
    """The folded names of months and of the days of the week, in all languages of the table."""

    months: Mapping[str, tuple[int, ...]]
    """The month of each name; two where languages differ: ``lip`` is June or July."""
    weekdays: frozenset[str]
    formats: Mapping[str, tuple[str, str]]
    """For each locale the order of a date in figures, such as ``dmy``, and the decimal mark."""


class Codes(NamedTuple):
    """The codes of one list, such as that of the countries, and their folded names."""

    names: Mapping[str, tuple[str, ...]]
    """The names of each code, in all languages of the table."""
    by_name: Mapping[str, str]
    """The code of each name."""


@cache
def calendar() -> Calendar:
    """Read the names of months and weekdays."""
    table = _table("calendar")
    months: dict[str, tuple[int, ...]] = {}
    for month, words in table["months"].items():
        for word in words:
            months[word] = (*months.get(word, ()), int(month))
    formats = {locale: (order, mark) for locale, (order, mark) in table["formats"].items()}
    return Calendar(months, frozenset(table["weekdays"]), formats)


@cache
def _code_lists() -> Mapping[str, Codes]:
    """Read the lists of codes: ``countries``, ``currencies``, ``languages`` and ``licences``."""
    table = _table("codes")
    lists: dict[str, Mapping[str, tuple[str, ...]]] = {
        name: {code: tuple(words) for code, words in table[name].items()}
        for name in ("countries", "currencies", "languages")
    }
    lists["licences"] = _LICENCES
    return {
        name: Codes(names, {word: code for code, words in names.items() for word in words})
        for name, names in lists.items()
    }


def _table(name: str) -> dict[str, dict[str, list[str]]]:
    path = files("llmeval_sdk.text") / "data" / f"{name}.json"
    table: dict[str, dict[str, list[str]]] = json.loads(path.read_text(encoding="utf-8"))
    return table


YES = frozenset(
    (
        "yes", "true", "ja", "oui", "si", "sí", "sì", "sim", "tak", "ano", "áno", "kyllä", "evet",
        "да", "так", "ναι", "igen", "jah", "jā", "taip", "ya", "はい", "是", "예", "نعم", "כן",
        "हाँ",
    )
)  # fmt: skip
"""Words that say yes, of languages in which they say nothing else."""
NO = frozenset(
    (
        "no", "false", "nein", "non", "nee", "não", "nie", "ne", "nej", "nei", "ei", "hayır", "нет",
        "ні", "не", "όχι", "nem", "nu", "いいえ", "否", "아니요", "아니오", "لا", "לא", "नहीं",
        "tidak",
    )
)  # fmt: skip
CHECKED, UNCHECKED = "☑☒✓✔", "☐"
"""Signs of a box on a form that is ticked, and of one that is not."""

_LICENCES: Mapping[str, tuple[str, ...]] = {
    "MIT": ("mit license", "mit licence", "the mit license"),
    "Apache-2.0": (
        "apache license version 2 0", "apache license 2 0", "apache 2 0",
        "apache software license 2 0", "apache licence version 2 0",
    ),
    "BSD-2-Clause": (
        "2 clause bsd", "bsd 2 clause", "simplified bsd", "freebsd license", "two clause bsd",
    ),
    "BSD-3-Clause": (
        "3 clause bsd", "bsd 3 clause", "new bsd", "modified bsd", "revised bsd",
        "three clause bsd",
    ),
    "ISC": ("isc license", "isc licence"),
    "MPL-2.0": ("mozilla public license version 2 0", "mozilla public license 2 0", "mpl 2 0"),
    "GPL-2.0": (
        "gnu general public license version 2", "gnu general public license v2", "gplv2", "gpl v2",
        "gpl 2",
    ),
    "GPL-3.0": (
        "gnu general public license version 3", "gnu general public license v3", "gplv3", "gpl v3",
        "gpl 3",
    ),
    "LGPL-2.1": (
        "gnu lesser general public license version 2 1", "lesser general public license v2 1",
        "lgplv2 1", "lgpl 2 1",
    ),
    "LGPL-3.0": (
        "gnu lesser general public license version 3", "lesser general public license v3", "lgplv3",
        "lgpl 3",
    ),
    "AGPL-3.0": (
        "gnu affero general public license version 3", "gnu affero general public license v3",
        "agplv3", "agpl 3",
    ),
    "Unlicense": ("the unlicense", "unlicense"),
    "CC0-1.0": ("cc0", "creative commons zero"),
    "CC-BY-4.0": ("creative commons attribution 4 0", "cc by 4 0"),
    "CC-BY-SA-4.0": ("creative commons attribution sharealike 4 0", "cc by sa 4 0"),
    "PSF-2.0": ("python software foundation license", "psf license"),
    "Zlib": ("zlib license", "zlib licence"),
    "EPL-2.0": ("eclipse public license 2 0", "eclipse public license v2 0"),
}  # fmt: skip
"""SPDX identifiers, and the folded names under which texts grant these licences."""


class Coded(NamedTuple):
    """A value of a list of codes."""

    kind: str
    """``country``, ``currency``, ``language`` or ``licence``."""
    code: str
    names: tuple[str, ...]
    """Other folded names of the same thing."""


_KINDS = {
    "countries": "country",
    "currencies": "currency",
    "languages": "language",
    "licences": "licence",
}
_MAX_NAME = 60


def coded(value: str, folded: str) -> tuple[Coded, ...]:
    """Return what a value stands for in the lists of codes; nothing for most values.

    ``value`` is as it was written, because codes are told from words by their capital letters, and
    ``folded`` is its folded form. Two-letter codes of languages are small letters.
    """
    if not value or len(value) > _MAX_NAME:
        return ()
    meanings = []
    for name, codes in _code_lists().items():
        code = value if value in codes.names else codes.by_name.get(folded)
        if code is None and name == "licences":
            code = _licence(value)
        if code is not None:
            meanings.append(Coded(_KINDS[name], code, codes.names[code]))
    return tuple(meanings)


def _licence(value: str) -> str | None:
    """Read an SPDX identifier whatever its case and its ending are."""
    lowered = value.lower().removesuffix("-only").removesuffix("-or-later").removesuffix("+")
    return _LICENCE_OF.get(lowered)


_LICENCE_OF = {code.lower(): code for code in _LICENCES}
