"""How `groundedness_risk` treats languages alike: the same items in twelve of them, in one stream.

    python benchmarks/quality/risk_languages.py --data ../shared/data

Nothing is fitted on these rows: they measure the shipped files (or models that are passed in).
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from risk_data import auroc

from llmeval_sdk.heuristics.risk import _text
from llmeval_sdk.heuristics.risk.groundedness import groundedness_risk
from llmeval_sdk.model import Chunk, Record


Score = Callable[[str, str, str], float]
_NUMBER = re.compile(r"\d+")
CHANGES = ("number", "unit", "entity", "addition", "negation")
NATIVE = {
    "ar": "٠١٢٣٤٥٦٧٨٩", "fa": "۰۱۲۳۴۵۶۷۸۹", "hi": "०१२३४५६७८९", "bn": "০১২৩৪৫৬৭৮৯",
    "zh": "０１２３４５６７８９",
}  # fmt: skip


def shipped(question: str, context: str, answer: str) -> float:
    """Score with the files of this package."""
    record = Record(request=question, response=answer, retrieved_context=(Chunk(context),))
    found = groundedness_risk(record)
    assert found is not None
    return 1.0 if found.value is None else float(found.value)


def items(folder: Path) -> list[dict[str, str]]:
    """One item is a context with a question, a grounded answer and an unsupported one."""
    path = folder / "parallel.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def swapped(copied: str, other: str, dice: random.Random) -> str | None:
    """Change one number of a copied sentence to one that the context does not have."""
    places = list(_NUMBER.finditer(copied))
    if not places:
        return None
    place = dice.choice(places)
    zero = ord(place.group()[0]) - int(place.group()[0])
    for _ in range(20):
        digits = str(dice.randint(10 ** (len(place.group()) - 1), 10 ** len(place.group()) - 1))
        changed = "".join(chr(zero + int(digit)) for digit in digits)
        if changed not in other:
            return copied[: place.start()] + changed + copied[place.end() :]
    return None


def copies(rows: Sequence[dict[str, str]]) -> list[tuple[dict[str, str], str, str]]:
    """Sentences with a number, copied from the context, and the same with another number."""
    dice, made = random.Random(5), []
    for row in rows:
        native = NATIVE.get(row["language"])
        forms = [row["context"]]
        if native:
            ascii_to_native = {ord(str(i)): digit for i, digit in enumerate(native)}
            forms.append(row["context"].translate(ascii_to_native))
        for context in forms:
            for start, end in _text.sentences(context):
                copied = context[start:end]
                wrong = swapped(copied, context, dice)
                if wrong is not None:
                    made.append(({**row, "context": context}, copied, wrong))
    return made


def measure(rows: Sequence[dict[str, str]], score: Score) -> dict[str, dict[str, float]]:
    """Return the figures by language, and by kind of change over all."""
    good = np.array([score(r["question"], r["context"], r["grounded"]) for r in rows])
    bad = np.array([score(r["question"], r["context"], r["unsupported"]) for r in rows])
    least = np.quantile(np.concatenate([good, bad]), 0.8)
    spoken = np.array([r["language"] for r in rows])
    changes = np.array([r["change"] for r in rows])
    made = copies(rows)
    found: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(spoken):
        here = spoken == name
        pairs = [(row, a, b) for row, a, b in made if row["language"] == name]
        true = [score(row["question"], row["context"], a) for row, a, _ in pairs]
        false = [score(row["question"], row["context"], b) for row, _, b in pairs]
        found[name] = {
            "grounded": float(good[here].mean()),
            "unsupported": float(bad[here].mean()),
            "AUROC": pooled(good[here], bad[here]),
            "grounded above": float((good[here] > least).mean()),
            "changed number": pooled(true, false),
        }
    for change in CHANGES:
        here = changes == change
        each = [
            pooled(good[here & (spoken == n)], bad[here & (spoken == n)])
            for n in dict.fromkeys(spoken)
        ]
        paired = np.mean((bad > good)[here]) + 0.5 * np.mean((bad == good)[here])
        found[change] = {
            "AUROC": pooled(good[here], bad[here]), "mean": float(np.mean(each)),
            "paired": float(paired),
        }  # fmt: skip
    found["all"] = {"AUROC": pooled(good, bad)}
    return found


def pooled(good: Sequence[float], bad: Sequence[float]) -> float:
    """AUROC of bad against good."""
    return auroc([0] * len(good) + [1] * len(bad), [*good, *bad])


def report(say: Callable[[str], None], folder: Path, score: Score = shipped) -> None:
    """Print the tables."""
    found = measure(items(folder), score)
    say("\n## groundedness_risk: the same 20 items in 12 languages, one stream\n")
    names = ("grounded", "unsupported", "AUROC", "grounded above", "changed number")
    say(
        "| language | mean, grounded | mean, unsupported | AUROC | grounded above the 80 % quantile | one number of a copy changed, AUROC |"
    )
    say("| --- |" + " ---: |" * 5)
    for name, row in found.items():
        if "grounded" in row:
            say(f"| {name} | " + " | ".join(f"{row[n]:.3f}" for n in names) + " |")
    say("\n| change | AUROC, all languages | mean over languages | pairs in order |")
    say("| --- | ---: | ---: | ---: |")
    for change in CHANGES:
        row = found[change]
        say(f"| {change} | {row['AUROC']:.3f} | {row['mean']:.3f} | {row['paired']:.3f} |")
    say(f"\nAll changes, all languages: AUROC {found['all']['AUROC']:.3f}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    report(print, parser.parse_args().data)


if __name__ == "__main__":
    main()
