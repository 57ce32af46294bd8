"""How good the built-in judges are with a model that you name, on labelled development data.

    python -m benchmarks.quality.judge_quality --data ../shared/data --model gpt-4o-mini
    python -m benchmarks.quality.judge_quality --data ../shared/data --stand-in

It writes labelled rows for each judge and runs ``llmeval judges`` on them: precision and recall
of the bad ones, kappa with intervals, cost. Every row is one call of the model at least, so a random
sample of each set is judged. ``--stand-in`` asks a rule-based server on the loopback interface in
place of a model: it shows that the command works and says nothing about the judges.

Only sets whose licence allows it are sent to a model: RAGTruth (MIT; passages of MS MARCO, for
research), WiCE (ODC-BY, CC BY-SA), SQuAD 2.0 (CC BY-SA), SROIE (MIT) and our own parallel items.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from llmeval_sdk.cli import main as llmeval
from llmeval_sdk.testing.judge_server import MODEL, JudgeServer


Row = dict[str, Any]


def grounded(folder: Path, name: str) -> Iterator[Row]:
    """Answers that people marked: a 1 says what its context does not."""
    for line in (folder / f"{name}.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        yield {
            "request_id": row["id"],
            "request": row["question"] or "Is this claim right?",
            "response": row["response"],
            "retrieved_context": [{"content": row["context"]}],
            "label": "no" if row["label"] else "yes",
        }


def parallel(folder: Path) -> Iterator[Row]:
    """Twenty items in twelve languages, each with a grounded and an unsupported answer."""
    for line in (folder / "parallel.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        for key, label in (("grounded", "yes"), ("unsupported", "no")):
            yield {
                "request_id": f"{row['id']}-{row['language']}-{key}",
                "request": row["question"],
                "response": row[key],
                "retrieved_context": [{"content": row["context"]}],
                "label": label,
            }


def sufficient(folder: Path) -> Iterator[Row]:
    """Questions with their paragraph, and with another one of the article that lacks the answer."""
    data = json.loads((folder / "squad2_half.json").read_text("utf-8"))
    draw = random.Random(0)
    articles: dict[str, list[Row]] = {}
    for paragraph in data["paras"]:
        articles.setdefault(paragraph["title"], []).append(paragraph)
    texts = {paragraph["pid"]: paragraph["text"] for paragraph in data["paras"]}
    for question in data["qs"]:
        if question["imp"]:
            continue
        answer = question["ans"][0]
        others = [p["text"] for p in articles[question["title"]] if answer not in p["text"]]
        for label, text in (("yes", texts[question["pid"]]), ("no", draw.choice(others))):
            yield {
                "request_id": f"{question['id']}-{label}",
                "request": question["q"],
                "expected_response": answer,
                "retrieved_context": [{"content": text}],
                "label": label,
            }


_AMOUNT = re.compile(r"\b\d{1,6}\.\d\d\b")
_DATE = re.compile(r"\b\d{1,2}[/-]\d{1,2}[/-]\d{2,4}\b")
FIELDS = {
    "total": (_AMOUNT, "the amount to pay, after tax and rounding"),
    "date": (_DATE, "the day of the sale"),
}


def extracted(folder: Path) -> Iterator[Row]:
    """Totals and dates as two simple extractors find them: their errors are natural ones."""
    for receipt in json.loads((folder / "sroie.json").read_text("utf-8")):
        for name, (pattern, description) in FIELDS.items():
            found = pattern.findall(receipt["text"])
            if not found or not receipt["key"].get(name):
                continue
            after = receipt["text"].casefold().rpartition(name)[2]
            near = pattern.search(after)
            for how, value in {"last": found[-1], "cue": near[0] if near else found[0]}.items():
                yield {
                    "request_id": f"{receipt['id']}-{name}-{how}",
                    "request": name,
                    "value": value,
                    "field_config": {"name": name, "description": description},
                    "retrieved_context": [{"content": receipt["text"]}],
                    "label": "yes" if value == receipt["key"][name] else "no",
                }


SETS: dict[str, tuple[str, Callable[[Path], Iterator[Row]]]] = {
    "groundedness on answers (RAGTruth)": ("groundedness", lambda f: grounded(f, "ragtruth_qa")),
    "groundedness on claims (WiCE)": ("groundedness", lambda f: grounded(f, "wice")),
    "groundedness in 12 languages": ("groundedness", parallel),
    "context_sufficiency (SQuAD)": ("context_sufficiency", sufficient),
    "extraction_correctness (receipts)": ("extraction_correctness", extracted),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the labelled sets")
    parser.add_argument("--model", help="judge model; default: LLMEVAL_JUDGE_MODEL")
    parser.add_argument("--stand-in", action="store_true", help="rules in place of a model")
    parser.add_argument("--rows", type=int, default=200, help="rows of each set (default: 200)")
    parser.add_argument("--judge", help="only the sets of this judge")
    args = parser.parse_args()
    failed = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model = [] if args.model is None else ["--model", args.model]
        if args.stand_in:
            server = stack.enter_context(JudgeServer())
            os.environ |= {"LLMEVAL_JUDGE_BASE_URL": server.base_url}  # noqa: TID251 - for the command
            model = ["--model", MODEL]
        for title, (judge, read) in SETS.items():
            if args.judge not in (None, judge):
                continue
            path = folder / "labelled.jsonl"
            path.write_text("".join(f"{json.dumps(row)}\n" for row in read(args.data)), "utf-8")
            print(f"\n=== {title}", flush=True)
            command = ["judges", str(path), "--evaluator", judge, "--positive", "no"]
            failed = llmeval([*command, "--sample", str(args.rows), "--show", "3", *model])
            if failed:
                break
    return failed


if __name__ == "__main__":
    sys.exit(main())
