"""Write the table of words that values are written with in other languages, from CLDR by Babel.

    python benchmarks/quality/locale_table.py --out llmeval_sdk/text/data

The package reads the table when it first meets a text that needs it, and never imports Babel.
"""

from __future__ import annotations

import argparse
import json
import re
from importlib.metadata import version
from pathlib import Path

from babel import Locale

from llmeval_sdk.text.folding import fold


LOCALES = (
    "en", "en_GB", "en_IN", "de", "de_CH", "fr", "es", "it", "pt_BR", "nl", "pl", "cs", "sk", "sv",
    "da", "nb", "fi", "tr", "ru", "uk", "bg", "el", "hu", "ro", "hr", "sl", "et", "lv", "lt", "ja",
    "zh", "ko", "ar", "he", "hi", "id", "ms", "vi", "ca",
)  # fmt: skip
CURRENCIES = (
    "EUR", "USD", "GBP", "JPY", "CNY", "INR", "CHF", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF",
    "RON", "BGN", "TRY", "RUB", "UAH", "ILS", "AED", "SAR", "EGP", "ZAR", "NGN", "KRW", "THB",
    "VND", "IDR", "MYR", "SGD", "HKD", "TWD", "PHP", "AUD", "NZD", "CAD", "BRL", "MXN", "ARS",
    "CLP", "COP", "ISK",
)  # fmt: skip
LANGUAGES = (
    "en", "de", "fr", "es", "it", "pt", "nl", "pl", "cs", "sk", "sv", "da", "no", "nb", "fi", "tr",
    "ru", "uk", "bg", "el", "hu", "ro", "hr", "sr", "sl", "et", "lv", "lt", "ja", "zh", "ko", "ar",
    "he", "hi", "id", "ms", "vi", "th", "ca", "fa", "ur", "bn", "ta",
)  # fmt: skip
FURTHER_FORMATS = (
    "en_US", "en_AU", "en_CA", "en_NZ", "en_IE", "en_ZA", "en_SG", "de_AT", "fr_CA", "fr_CH",
    "fr_BE", "it_CH", "es_MX", "es_AR", "es_US", "pt_PT", "nl_BE", "zh_TW", "zh_HK", "sr", "th",
)  # fmt: skip
"""Locales that write figures in their own way with the words of another one."""
FURTHER_MONTHS = {"janner": 1, "maerz": 3, "ogos": 8, "julai": 7, "disember": 12, "setembro": 9}
"""Names of months that CLDR writes otherwise."""
OTHER_WORDS = frozenset(("sub", "uno"))
"""Abbreviations of a month that are frequent words of another language."""
MOST_MONTHS = 2
"""Months that one word may name: ``lip`` is June in Croatian and July in Polish."""
MIN_NAME = 3
"""Letters of a folded name in a script with spaces; a shorter one is too much like other words."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    locales = [Locale.parse(name) for name in LOCALES]
    source = f"CLDR by Babel {version('babel')}, written by benchmarks/quality/locale_table.py"
    calendar = {
        "months": months(locales),
        "weekdays": sorted(weekdays(locales)),
        "formats": formats([*locales, *map(Locale.parse, FURTHER_FORMATS)]),
    }
    codes = {
        "currencies": names(locales, CURRENCIES, lambda locale: locale.currencies),
        "countries": names(locales, territories(), lambda locale: locale.territories),
        "languages": names(locales, LANGUAGES, lambda locale: locale.languages),
    }
    write(options.out / "calendar.json", {"source": source, **calendar})
    write(options.out / "codes.json", {"source": source, **codes})


def write(path: Path, table: dict[str, object]) -> None:
    text = json.dumps(table, ensure_ascii=False, separators=(",", ":"))
    path.write_text(text.replace("],", "],\n") + "\n", encoding="utf-8")
    print(f"wrote {path}: {path.stat().st_size:,} bytes")


def months(locales: list[Locale]) -> dict[str, list[str]]:
    """Collect the folded names of each month, in words that a text without its locale may have."""
    meanings = {word: {month} for word, month in FURTHER_MONTHS.items()}
    for locale in locales:
        for context in ("format", "stand-alone"):
            for width in ("wide", "abbreviated"):
                for month, name in locale.months[context][width].items():
                    word = fold(name)
                    if word and " " not in word and not any(map(str.isdecimal, word)):
                        meanings.setdefault(word, set()).add(month)
    of: dict[str, list[str]] = {str(month): [] for month in range(1, 13)}
    for word, numbers in sorted(meanings.items()):
        if len(numbers) <= MOST_MONTHS and len(word) >= 2 and word not in OTHER_WORDS:
            for month in sorted(numbers):
                of[str(month)].append(word)
    return of


def formats(locales: list[Locale]) -> dict[str, list[str]]:
    """Return the order of a date in figures, and the decimal mark, of each locale."""
    return {
        str(locale): [
            "".join(dict.fromkeys(re.findall("[dmy]", str(locale.date_formats["short"]).lower()))),
            "," if locale.number_symbols["latn"]["decimal"] == "," else ".",
        ]
        for locale in locales
    }


def weekdays(locales: list[Locale]) -> set[str]:
    """Collect the folded names of the days of the week."""
    every = (
        fold(name)
        for locale in locales
        for width in ("wide", "abbreviated")
        for name in locale.days["format"][width].values()
    )
    return {word for name in every for word in name.split() if len(word) > 1}


def territories() -> list[str]:
    """Return the codes of all countries."""
    return sorted(
        code
        for code in Locale("en").territories
        if len(code) == 2
        and code.isalpha()
        and code not in ("EU", "EZ", "QO", "UN", "XA", "XB", "ZZ")
    )


def names(locales, codes, read) -> dict[str, list[str]]:
    """Collect the folded names of each code; a name of two codes says nothing and is left out."""
    meanings: dict[str, set[str]] = {}
    for locale in locales:
        known = read(locale)
        for code in codes:
            name = fold(known.get(code, "")).strip()
            if len(name) >= MIN_NAME or (name and not name.isascii()):
                meanings.setdefault(name, set()).add(code)
    of: dict[str, list[str]] = {code: [] for code in codes}
    for name, known_codes in sorted(meanings.items()):
        if len(known_codes) == 1:
            of[next(iter(known_codes))].append(name)
    return of


if __name__ == "__main__":
    main()
