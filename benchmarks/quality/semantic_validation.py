"""How well `semantic_validation` tells true values from wrong ones, on scanned receipts.

True values of each field should pass although the scan misread some letters; a changed date, a
changed amount, one swapped word or a value of another receipt should not. Next to it, plain
containment. Exit code 1 if a bar is missed.

    python benchmarks/quality/semantic_validation.py --data ../shared/data/sroie.json
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from llmeval_sdk.heuristics.semantic_validation import semantic_validation
from llmeval_sdk.model import Evaluation, Extraction, Record


FIELDS = ("company", "address", "date", "total")
FALSE_FAIL_BARS = {"company": 0.01, "address": 0.01, "date": 0.03, "total": 0.01}
CAUGHT_BARS = {
    "another date": 0.95,
    "another amount": 0.95,
    "one word swapped in company": 0.80,
    "one word swapped in address": 0.80,
}
FORMATS = (
    "%d/%m/%Y", "%d-%m-%Y", "%d.%m.%Y", "%d-%m-%y", "%d/%m/%y", "%d.%m.%y", "%Y-%m-%d", "%Y/%m/%d",
    "%Y%m%d", "%d/%b/%Y", "%d-%b-%Y", "%m/%d/%Y", "%m-%d-%Y", "%d %b %Y", "%d %b %y", "%b %d, %Y",
)  # fmt: skip
DRAWS = 3

Row = dict[str, object]


def check(value: str, text: str) -> Evaluation:
    return semantic_validation(Record(extractions=(Extraction(value=value, evidence=text),)))


def passes(value: str, text: str) -> bool:
    return check(value, text).value == "pass"


def contained(value: str, text: str) -> bool:
    return value in text


def another_date(value: str, text: str, draw: random.Random, _: list[str]) -> str | None:
    for form in FORMATS:
        try:
            day = datetime.strptime(value.strip("()").title(), form)  # noqa: DTZ007
        except ValueError:
            continue
        for _attempt in range(20):
            other = day + timedelta(days=draw.choice((-1, 1)) * draw.randint(1, 500))
            written = other.strftime(form).upper()
            if written not in text and other.strftime("%d/%m/%Y") not in text:
                return written
    return None


def another_amount(value: str, text: str, draw: random.Random, _: list[str]) -> str | None:
    amounts = {float(number) for number in re.findall(r"\d+(?:\.\d+)?", text.replace(",", ""))}
    places = [place for place, character in enumerate(value) if character.isdigit()]
    for _attempt in range(20):
        place = draw.choice(places)
        changed = value[:place] + draw.choice("123456789") + value[place + 1 :]
        number = re.sub(r"[^\d.]", "", changed)
        if changed != value and float(number) not in amounts:
            return changed
    return None


def swapped_word(value: str, text: str, draw: random.Random, others: list[str]) -> str | None:
    words = value.split()
    places = [place for place, word in enumerate(words) if any(map(str.isalnum, word))]
    for _attempt in range(50):
        place = draw.choice(places)
        word = draw.choice(draw.choice(others).split())
        if any(map(str.isalnum, word)) and word.casefold() not in text.casefold():
            return " ".join([*words[:place], word, *words[place + 1 :]])
    return None


def another_receipt(value: str, text: str, draw: random.Random, others: list[str]) -> str | None:
    return next(
        (o for o in draw.sample(others, 20) if o.casefold() != value.casefold() and o not in text),
        None,
    )


def caught(
    rows: list[Row],
    field: str,
    corrupt: Callable[[str, str, random.Random, list[str]], str | None],
    *,
    show: bool,
) -> tuple[int, int, int]:
    """Return how many wrong values there were, and how many each check caught."""
    draw = random.Random(20)
    others = [row["key"][field] for row in rows if row["key"].get(field)]
    made = ours = plain = 0
    for row in rows:
        value = row["key"].get(field)
        for _ in range(DRAWS if value else 0):
            wrong = corrupt(value, row["text"], draw, others)
            if wrong is None:
                continue
            made += 1
            plain += not contained(wrong, row["text"])
            found = passes(wrong, row["text"])
            ours += not found
            if found and show:
                print(f"  missed: {field} {value!r} -> {wrong!r}")
    return made, ours, plain


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/sroie.json"))
    parser.add_argument("--show", action="store_true", help="print what went wrong")
    options = parser.parse_args()
    rows = json.loads(options.data.read_text(encoding="utf-8"))
    missed = []

    print(f"{'true values':32}{'n':>6}{'false fails':>14}{'containment':>14}{'bar':>8}")
    for field in FIELDS:
        pairs = [(r["key"][field], r["text"]) for r in rows if r["key"].get(field)]
        wrong = [value for value, text in pairs if not passes(value, text)]
        plain = sum(not contained(value, text) for value, text in pairs)
        bar = FALSE_FAIL_BARS[field]
        share = len(wrong) / len(pairs)
        print(f"{field:32}{len(pairs):6}{share:14.1%}{plain / len(pairs):14.1%}{bar:8.0%}")
        if share > bar:
            missed.append(field)
        if options.show:
            print(*(f"  failed: {field} {value!r}" for value in wrong), sep="\n")

    print(f"\n{'wrong values':32}{'n':>6}{'caught':>14}{'containment':>14}{'bar':>8}")
    tests = [("another date", "date", another_date), ("another amount", "total", another_amount)]
    tests += [(f"one word swapped in {f}", f, swapped_word) for f in ("company", "address")]
    tests += [(f"{f} of another receipt", f, another_receipt) for f in FIELDS]
    for name, field, corrupt in tests:
        made, ours, plain = caught(rows, field, corrupt, show=options.show)
        bar = CAUGHT_BARS.get(name)
        shown = f"{bar:8.0%}" if bar else ""
        print(f"{name:32}{made:6}{ours / made:14.1%}{plain / made:14.1%}{shown}")
        if bar and ours / made < bar:
            missed.append(name)

    print(f"\n{'time':32}{'µs per value':>20}")
    pairs = [(r["key"][f], r["text"]) for r in rows for f in FIELDS if r["key"].get(f)]
    for name, measured in (
        ("true values", pairs),
        ("all wrong", [(v + " x", t) for v, t in pairs]),
    ):
        runs = []
        for _ in range(3):
            begun = time.perf_counter()
            for value, text in measured:
                check(value, text)
            runs.append(time.perf_counter() - begun)
        print(f"{name:32}{min(runs) / len(measured) * 1e6:20.1f}")
    if missed:
        print("\nmissed:", ", ".join(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
