"""Every bar of the promise to say which values are probably wrong, with what is measured today.

    python -m benchmarks.quality.truth --data ../shared/data

The exit code is 1 where a bar is missed. ``--only locales,pairs`` runs a part, ``--examples 3``
shows what was ranked wrongly, ``--against REVISION`` times the code of another revision beside.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from benchmarks.quality.contract_answers import KINDS, contract_objects, contract_questions
from benchmarks.quality.document_words import KEPT_APART, WORDS
from benchmarks.quality.documents import APART
from benchmarks.quality.field_scores import (
    Scored,
    auroc,
    calibration_error,
    chance_of,
    is_found_of,
    ranked,
    score,
    verdicts,
)
from benchmarks.quality.form_pairs import pairs
from benchmarks.quality.frozen_answers import FrozenCase, freeze, frozen
from benchmarks.quality.receipt_answers import Labelled, receipt_records
from benchmarks.quality.structured_answers import (
    EMPTY,
    ERRORS,
    MISSED,
    RIGHT,
    WRONG_SHARE,
    answers,
)
from llmeval_sdk.heuristics.extraction.risk import ExtractionRisk
from llmeval_sdk.statistics.calibration import calibrated


FLAT = Path(__file__).parent
"""The measurements of receipts and packages import each other from their own folder."""
SHARE, CUT = 0.2, 0.8
PARTS = (
    "locales", "pairs", "contradictions", "calibration", "receipts", "contracts", "demo", "cost",
)  # fmt: skip
ROUNDS, LABELS = 40, 100
bars: list[tuple[str, float, str, bool]] = []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--answers", type=int, default=36, help="documents in each locale")
    parser.add_argument("--wrong", type=float, default=WRONG_SHARE, help="share of wrong values")
    parser.add_argument("--seed", type=int, default=34)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--split", default=APART, help="apart, or train without kept-apart locales")
    parser.add_argument("--examples", type=int, default=0)
    parser.add_argument(
        "--demo",
        type=Path,
        default=Path("artifacts/demo-answers.jsonl"),
        help="the frozen answers of the demo; made where there are none",
    )
    parser.add_argument("--against", default="", help="a revision of git to time beside")
    options = parser.parse_args()
    parts = options.only.split(",")
    rows = {}
    if not {"locales", "contradictions", "calibration"}.isdisjoint(parts):
        rows = scored_locales(options)
    if "locales" in parts:
        locales(rows)
        stream(rows, scored_locales(options, wrong=1 - CUT))
        kinds(rows)
        missed(rows)
        if options.examples:
            examples(rows, options.examples)
    if "pairs" in parts:
        forms(options.examples)
    if "contradictions" in parts:
        contradictions(rows, options.examples)
    if "calibration" in parts:
        calibration(rows)
    if "receipts" in parts:
        receipts(options.data)
    if "contracts" in parts:
        contracts(options.split, options.wrong, options.seed, options.examples)
    if "demo" in parts:
        demo(demo_answers(options.demo))
    if "cost" in parts:
        cost(options.against)
    return verdict()


def bar(name: str, value: float, most: float | None = None, least: float | None = None) -> None:
    """Note a figure beside the bar that it has to clear."""
    is_met = not math.isnan(value) and (
        (least is None or value >= least) and (most is None or value <= most)
    )
    needed = f"≥ {least}" if least is not None else f"≤ {most}"
    bars.append((name, value, needed, is_met))


def verdict() -> int:
    print("\n## Bars\n\n| bar | measured | needed | |\n| --- | --- | --- | --- |")
    for name, value, needed, is_met in bars:
        print(f"| {name} | {value:.3f} | {needed} | {'' if is_met else '**missed**'} |")
    missed = [name for name, _, _, is_met in bars if not is_met]
    print(f"\n{len(bars) - len(missed)} of {len(bars)} bars are met.")
    return bool(missed)


def scored_locales(
    options: argparse.Namespace, wrong: float | None = None
) -> dict[str, list[Scored]]:
    share = options.wrong if wrong is None else wrong
    every = [loc for loc in WORDS if options.split == APART or loc not in KEPT_APART]
    return {
        locale: score(locale, answers(locale, options.answers, options.split, share, options.seed))
        for locale in every
    }


def locales(rows: dict[str, list[Scored]]) -> None:
    print("\n## Locales: whole answers over generated documents, kept apart\n")
    print("| locale | values | wrong | not checked | AUROC | caught in a fifth |")
    print("| --- | --- | --- | --- | --- | --- |")
    for locale, own in rows.items():
        values = [row for row in own if row.given.has_value]
        wrong = sum(row.given.is_wrong for row in values)
        unchecked = sum(row.chance is None for row in values) / len(values)
        reached = ranked(values)
        mark = " (apart)" if locale in KEPT_APART else ""
        print(
            f"| {locale}{mark} | {len(values)} | {wrong} | {unchecked:.1%} | {reached:.3f} "
            f"| {caught(values):.0%} |"
        )
        bar(f"AUROC {locale}", reached, least=0.82)
    fewest = min(sum(row.given.has_value for row in own) for own in rows.values())
    bar("values of the locale with fewest", fewest, least=300)
    every = [row for own in rows.values() for row in own]
    apart = [row for locale in rows if locale in KEPT_APART for row in rows[locale]]
    bar("AUROC of all locales", ranked(every), least=0.90)
    if apart:
        bar("AUROC of locales kept apart", ranked(apart), least=0.85)


def caught(values: Sequence[Scored]) -> float:
    """Return the share of all errors in the riskiest fifth."""
    order = sorted(values, key=lambda row: -row.risk)[: round(len(values) * SHARE)]
    wrong = sum(row.given.is_wrong for row in values)
    return sum(row.given.is_wrong for row in order) / wrong if wrong else float("nan")


def stream(rows: dict[str, list[Scored]], as_many_wrong: dict[str, list[Scored]]) -> None:
    """Print which right values stand above the cut of one stream.

    The bar is for a stream with as many wrong values as stand above the cut, so that a perfect
    order has none of the right ones there. Where one value in ten is wrong, any order has at least
    a ninth of them above the cut, and the figures are only printed.
    """
    print(f"\n## One mixed stream, cut at {CUT:.0%}: share of right values above the cut\n")
    for own in (rows, as_many_wrong):
        given = {locale: [r for r in part if r.given.has_value] for locale, part in own.items()}
        largest = _above_the_cut(given)
    bar("largest share of right values above the cut", largest, most=0.10)


def _above_the_cut(rows: dict[str, list[Scored]]) -> float:
    """Print the share of each locale's right values above the cut, and return the largest."""
    cut = float(np.quantile([row.risk for own in rows.values() for row in own], CUT))
    shares = {}
    wrong = np.mean([row.given.is_wrong for own in rows.values() for row in own])
    for locale, own in rows.items():
        right = [row.risk > cut for row in own if not row.given.is_wrong]
        shares[locale] = sum(right) / len(right)
    print(f"cut at {cut:.3f}: " + ", ".join(f"{k} {v:.1%}" for k, v in shares.items()))
    least = max(0.0, (1 - CUT - wrong) / (1 - wrong))
    print(f"with {wrong:.1%} wrong, a perfect order has a mean of {least:.1%}")
    return max(shares.values())


def kinds(rows: dict[str, list[Scored]]) -> None:
    every = [row for own in rows.values() for row in own]
    print("\n## By kind of error (beside all right values)\n")
    print("| error | values | AUROC | worst locales |\n| --- | --- | --- | --- |")
    for kind in ERRORS:
        if kind == MISSED:
            continue
        count = sum(row.given.kind == kind for row in every)
        own = {locale: ranked(part, kind) for locale, part in rows.items()}
        known = sorted((value, locale) for locale, value in own.items() if not math.isnan(value))
        worst = ", ".join(f"{locale} {value:.2f}" for value, locale in known[:3])
        print(f"| {kind} | {count} | {ranked(every, kind):.3f} | {worst} |")
    bar("AUROC of the neighbour's value", ranked(every, "neighbour"), least=0.88)
    bar("AUROC of another document's value", ranked(every, "document"), least=0.88)
    print("\n| field | values | wrong | AUROC | mean chance of right | of wrong |")
    print("| --- | --- | --- | --- | --- | --- |")
    by_key: dict[str, list[Scored]] = defaultdict(list)
    for row in every:
        if row.given.has_value:
            by_key[row.given.key].append(row)
    for key, own_rows in by_key.items():
        right = [row.risk for row in own_rows if not row.given.is_wrong]
        wrong = [row.risk for row in own_rows if row.given.is_wrong]
        print(
            f"| {key} | {len(own_rows)} | {len(wrong)} | {ranked(own_rows):.3f} "
            f"| {_mean(right):.3f} | {_mean(wrong):.3f} |"
        )
    layouts: dict[str, list[Scored]] = defaultdict(list)
    for row in every:
        layouts[row.answer.document.layout].append(row)
    shown = ", ".join(f"{layout} {ranked(own):.3f}" for layout, own in layouts.items())
    print(f"\nAUROC by layout: {shown}")


def missed(rows: dict[str, list[Scored]]) -> None:
    """Print how many fields without a value are told as missed, rightly and wrongly."""
    every = [row for own in rows.values() for row in own]
    lacking = [row for row in every if row.given.kind == MISSED]
    empty = [row for row in every if row.given.kind == EMPTY]
    print("\n## Fields without a value\n")
    for name, part in (("missed", lacking), ("rightly empty", empty)):
        told = sum(row.chance is not None for row in part)
        print(f"{name}: {told} of {len(part)} are told to be stated in the document")
    reached = auroc([row.given.is_wrong for row in every], [row.risk for row in every])
    bar("AUROC of all locales, with missed values", reached, least=0.90)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


def examples(rows: dict[str, list[Scored]], count: int) -> None:
    print("\n## Ranked wrongly\n")
    for own in rows.values():
        right = sorted((r for r in own if not r.given.is_wrong), key=lambda r: -r.risk)
        wrong = (r for r in own if r.given.is_wrong and r.given.has_value)
        for row in [*right[:count], *sorted(wrong, key=lambda r: r.risk)[:count]]:
            print(_shown(row))


def _shown(row: Scored) -> str:
    document, one = row.answer.document, row.given
    return (
        f"- {row.locale} {document.kind}/{document.layout} `{one.name}` = {one.value!r} "
        f"({one.kind}; right: {one.truth}) chance {row.chance}: {row.reason}"
    )


def forms(shown: int) -> None:
    print("\n## Pairs that differ in the form alone\n")
    print("| form | pairs | moved by more than .05 | largest |\n| --- | --- | --- | --- |")
    moves: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for pair in pairs():
        scorer = ExtractionRisk()
        first, second = (chance_of(scorer, record) for record in (pair.plain, pair.changed))
        move = 1.0 if (first is None) != (second is None) else abs((first or 0) - (second or 0))
        said = ExtractionRisk().evaluate(pair.changed).explanation
        text = (
            f"{pair.locale} {pair.plain.field_config['name']}: {pair.plain.value!r} {first} → "
            f"{pair.changed.value!r} {second}: {said}"
        )
        moves[pair.form].append((move, text))
    for form, own in moves.items():
        far = sum(move > 0.05 for move, _ in own)
        print(f"| {form} | {len(own)} | {far} | {max(own)[0]:.3f} |")
    for own in moves.values():
        for move, text in sorted(own, reverse=True)[:shown]:
            if move > 0.05:
                print("-", text)
    every = [move for own in moves.values() for move, _ in own]
    bar("pairs", len(every), least=300)
    bar("largest movement of a pair", max(every), most=0.05)
    bar("pairs that moved by more than .05", sum(move > 0.05 for move in every), most=0)


def contradictions(rows: dict[str, list[Scored]], shown: int) -> None:
    """Count records of which one score finds the value and another calls it absent."""
    said: list[tuple[dict[str, bool], str]] = []
    for row in [row for own in rows.values() for row in own][::3]:
        if row.given.value is not None:
            record = row.answer.single(row.given)
            said.append((verdicts(record, is_found=row.is_found), _shown(row)))
    for pair in pairs():
        for record in (pair.plain, pair.changed):
            is_found = is_found_of(ExtractionRisk(), record)
            text = f"- {pair.form} {pair.locale}: {record.value!r}"
            said.append((verdicts(record, is_found=is_found), text))
    compared = [(about, text) for about, text in said if len(about) > 1]
    against = [(about, text) for about, text in compared if len(set(about.values())) > 1]
    print(f"\n## Contradictions: {len(against)} of {len(compared)} records\n")
    for names in combinations(("extraction_risk", "semantic_validation", "groundedness_risk"), 2):
        both = [about for about, _ in compared if all(name in about for name in names)]
        apart = sum(about[names[0]] != about[names[1]] for about in both)
        print(f"- {' and '.join(names)}: {apart} of {len(both)}")
    for about, text in against[:: max(1, len(against) // max(1, 4 * shown))] if shown else ():
        absent = ", ".join(name for name, is_there in about.items() if not is_there)
        print(f"{text} (absent for {absent})")
    bar("contradicting records", len(against) / max(1, len(compared)), most=0.02)


def calibration(rows: dict[str, list[Scored]]) -> None:
    """Compare chances with what came true, at the rate of the set and at two others."""
    labels, chances = _labelled_chances([row for own in rows.values() for row in own])
    print(f"\n## Calibration, {labels.mean():.1%} wrong, mean chance {chances.mean():.3f}\n")
    print("| chance | values | wrong |\n| --- | --- | --- |")
    for part in np.array_split(np.argsort(chances, kind="stable"), 10):
        low, high = chances[part].min(), chances[part].max()
        print(f"| {low:.3f} to {high:.3f} | {len(part)} | {labels[part].mean():.1%} |")
    bar("calibration error at the set's own rate", calibration_error(labels, chances), most=0.05)
    dice = np.random.default_rng(34)
    for rate in (0.02, 0.30):
        errors = []
        for _ in range(ROUNDS):
            drawn = _at_rate(labels, rate, dice)
            asked, rest = drawn[:LABELS], drawn[LABELS:]
            fitted = calibrated(chances[asked].tolist(), labels[asked].tolist())
            own = np.array([fitted(chance) for chance in chances[rest]])
            errors.append(calibration_error(labels[rest], own))
        name = f"calibration error at {rate:.0%} after {LABELS} labels"
        bar(name, float(np.mean(errors)), most=0.05)


def _labelled_chances(rows: Sequence[Scored]) -> tuple[np.ndarray, np.ndarray]:
    """Return of each value that was checked whether it is wrong, and its chance of that."""
    checked = [row for row in rows if row.given.has_value and row.chance is not None]
    labels = [row.given.is_wrong for row in checked]
    return np.array(labels, float), np.array([row.chance for row in checked], float)


def _at_rate(labels: np.ndarray, rate: float, dice: np.random.Generator) -> np.ndarray:
    """Draw values so that a share of them is wrong, in random order."""
    wrong, right = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)
    count = min(len(right) / (1 - rate), len(wrong) / rate)
    drawn = np.concatenate(
        [
            dice.choice(wrong, round(count * rate), replace=False),
            dice.choice(right, round(count * (1 - rate)), replace=False),
        ]
    )
    return dice.permutation(drawn)


def receipts(data: Path) -> None:
    """Measure receipts with a tenth of errors, and the runs of six apps that were never trained on."""
    print("\n## Receipts\n\n| error | values | AUROC |\n| --- | --- | --- |")
    rows = receipt_records(data)
    chances = _chances(ExtractionRisk(), rows)
    labels = [row.kind != RIGHT for row in rows]
    for kind in sorted({row.kind for row in rows} - {RIGHT}):
        kept = [n for n, row in enumerate(rows) if row.kind in (kind, RIGHT)]
        reached = auroc([labels[n] for n in kept], [chances[n] for n in kept])
        print(f"| {kind} | {sum(row.kind == kind for row in rows)} | {reached:.3f} |")
    bar("AUROC of receipts", auroc(labels, chances), least=0.96)
    bar("receipts: errors in a fifth", _caught(labels, chances), least=0.90)
    sys.path.insert(0, str(FLAT))
    import extraction_sources
    from extraction_fit import fit, measure, measure_answers, risks
    from risk_data import recall_at

    package_runs = measure(list(extraction_sources.packages()))
    generated = measure_answers(
        one
        for locale in WORDS
        if locale not in KEPT_APART
        for one in answers(locale, 40, "train", wrong=0.25)
    )
    short_answers = measure(list(extraction_sources.short_answers(data)))
    apart = fit([package_runs, short_answers, generated, generated])
    chances = _chances(ExtractionRisk(weights=apart), rows)
    bar("AUROC of receipts, fitted without any", auroc(labels, chances), least=0.96)
    bar("the same: errors in a fifth", _caught(labels, chances), least=0.90)
    source = measure(list(extraction_sources.receipts(data)))
    scores = risks(source, fit([package_runs]))
    bar("AUROC of six apps on receipts", auroc(source.labels, scores), least=0.96)
    share = recall_at(source.labels, scores, SHARE, WRONG_SHARE)
    bar("six apps on receipts: errors in a fifth", share, least=0.90)


def _chances(scorer: ExtractionRisk, rows: Sequence[Labelled]) -> list[float]:
    """Score records one after the other."""
    return [chance_of(scorer, row.record) or 0.0 for row in rows]


def _caught(labels: Sequence[bool], chances: Sequence[float]) -> float:
    """Return the part of the errors that a fifth of the looks finds, the riskiest first."""
    order = sorted(range(len(labels)), key=lambda n: -chances[n])[: round(len(labels) * SHARE)]
    return sum(labels[n] for n in order) / sum(labels)


CONTRACTS = 360
"""How many contracts are asked about, and how many are read as objects."""


def contracts(split: str, wrong: float, seed: int, shown: int) -> None:
    """Measure answers about contracts in prose: single questions, and objects of many fields."""
    shapes = {
        "questions": score(
            "questions", contract_questions(CONTRACTS, split, wrong, seed), alone=True
        ),
        "objects": score("objects", contract_objects(CONTRACTS, split, wrong, seed)),
    }
    given = {shape: [row for row in own if row.given.has_value] for shape, own in shapes.items()}
    print("\n## Contracts: answers about clauses in prose\n")
    print("| shape | values | wrong | not checked | AUROC | caught in a fifth |")
    print("| --- | --- | --- | --- | --- | --- |")
    for shape, own in given.items():
        wrong_values = sum(row.given.is_wrong for row in own)
        unchecked = sum(row.chance is None for row in own) / len(own)
        reached, share = ranked(own), caught(own)
        print(
            f"| {shape} | {len(own)} | {wrong_values} | {unchecked:.1%} | {reached:.3f} "
            f"| {share:.0%} |"
        )
        bar(f"AUROC of contracts, {shape}", reached, least=0.90)
        error = calibration_error(*_labelled_chances(own))
        bar(f"calibration error of contracts, {shape}", error, most=0.05)
    every = [row for own in given.values() for row in own]
    print("\n| error | values | AUROC |\n| --- | --- | --- |")
    for kind in KINDS:
        count = sum(row.given.kind == kind for row in every)
        print(f"| {kind} | {count} | {ranked(every, kind):.3f} |")
    by_field: dict[str, list[Scored]] = defaultdict(list)
    for row in every:
        by_field[row.given.key].append(row)
    print("\n| field | values | wrong | AUROC |\n| --- | --- | --- | --- |")
    for key, own in by_field.items():
        count = sum(row.given.is_wrong for row in own)
        print(f"| {key} | {len(own)} | {count} | {ranked(own):.3f} |")
    if shown:
        examples(given, shown)


def demo_answers(path: Path) -> list[FrozenCase]:
    """Return the demo's answers of a file, which is made where there is none."""
    if not path.exists():
        sys.path.insert(0, str(FLAT))
        from extraction_sources import packages

        made = [case for case in packages() if case.app == "the demo" and case.answered]
        freeze(made, path)
    return frozen(path)


def demo(cases: Sequence[FrozenCase]) -> None:
    """Compare the flagship with the formulas on the demo's own answers."""
    sys.path.insert(0, str(FLAT))
    from extraction_evaluate import PLAIN
    from risk_data import recall_at

    scorer = ExtractionRisk()
    chances = [chance_of(scorer, case.record) or 0.0 for case in cases]
    labels = [case.label for case in cases]
    print(f"\n## The demo's answers: {len(cases)}, {sum(labels)} wrong\n")
    figures = {"extraction_risk": chances}
    figures |= {name: [plain(case.record) for case in cases] for name, plain in PLAIN.items()}
    print("| score | AUROC | errors in a fifth of the looks |\n| --- | --- | --- |")
    shares = {}
    for name, scores in figures.items():
        shares[name] = recall_at(labels, scores, SHARE)
        print(f"| {name} | {auroc(labels, scores):.3f} | {shares[name]:.1%} |")
    best = max(share for name, share in shares.items() if name in PLAIN)
    bar("demo: errors in a fifth", shares["extraction_risk"], least=0.52)
    bar("demo: ahead of the best formula by", shares["extraction_risk"] - best, least=0.0)
    bar(
        "demo: calibration error", calibration_error(np.array(labels), np.array(chances)), most=0.05
    )


_TIMED = """
import time
from llmeval_sdk.heuristics.extraction.risk import ExtractionRisk
from llmeval_sdk.model import Chunk, Record
def record(turn, fields):
    text = "\\n".join(f"Position {n}: the amount of item {n} is EUR {turn + n}.{n:02d}, due on"
                     f" {n % 27 + 1} March 2026 at Northwind Depot {n}" for n in range(8))
    chunks = tuple(Chunk(f"Part {turn} {n}\\n{text}", f"part-{n}.pdf", str(n)) for n in range(5))
    values = {f"amount_{n}": f"{turn + n % 8}.{n % 8:02d}" for n in range(fields)}
    if fields == 1:
        return Record(request="What is the amount?", value=values["amount_0"],
                      retrieved_context=chunks, field_config={"name": "amount"})
    return Record(request="Read the document.", value=values, retrieved_context=chunks)
for fields in (1, 20):
    times = []
    for turn in range(150):
        made, scorer = record(turn, fields), ExtractionRisk()
        begun = time.thread_time()
        scorer.evaluate(made)
        times.append((time.thread_time() - begun) * 1e3)
    print(sorted(times[30:])[60])
"""
"""Prints the median milliseconds for one field and for an answer of twenty, over five passages."""


def cost(against: str) -> None:
    print("\n## Cost: processor time over five new passages, median\n")
    one, twenty = _timed(Path.cwd())
    print(f"one field {one:.2f} ms, an answer of twenty {twenty:.2f} ms")
    bar("20 fields over 5 passages, ms", twenty, most=3.0)
    if not against:
        return
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(
            ["git", "archive", against, "llmeval_sdk"], capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
        before, _ = _timed(Path(folder))
        again, _ = _timed(Path.cwd())
    print(f"one field at {against}: {before:.2f} ms")
    bar(f"one field, times {against}", min(one, again) / before, most=1.3)


def _timed(folder: Path) -> tuple[float, float]:
    """Time the package that stands in a folder, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _TIMED],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},  # noqa: TID251 - for the process
        capture_output=True,
        text=True,
        check=True,
    )
    one, twenty = map(float, done.stdout.split())
    return one, twenty


if __name__ == "__main__":
    begun = time.monotonic()
    status = main()
    print(f"{time.monotonic() - begun:.0f} s")
    sys.exit(status)
