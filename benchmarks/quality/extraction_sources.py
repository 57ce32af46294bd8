"""The three labelled sources of extraction runs: receipts, package documents, short answers."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from extraction_data import Case, Question, Searcher, kind_of, run, words
from rapidfuzz import fuzz


sys.path.append(str(Path(__file__).parents[2] / "examples"))

from extract_fields import documents, grading
from extract_fields.app import LIMITS, find, vote
from extract_fields.documents import FIELDS, Document
from extract_fields.search import Index
from extract_fields.search import search as hybrid_search

from llmeval_sdk.model import Record
from llmeval_sdk.model.fields import to_chunks, to_extractions
from llmeval_sdk.text.amounts import only_date, same
from llmeval_sdk.text.folding import fold


SOURCES = ("receipts", "packages", "short answers")
RECEIPT_LINES = 6
NEEDED_SHARE = 90
"""Of 100: how alike a scanned name has to be to its true spelling to count as right."""

_AMOUNT = re.compile(r"(?<![\d.,])(?:RM ?|\$ ?)?(\d{1,5}(?:,\d{3})*\.\d{2})(?![\d])", re.IGNORECASE)
_DATE = re.compile(
    r"(?<![\d/.-])(\d{1,4}[/.-]\d{1,2}[/.-]\d{2,4}|\d{1,2}[ /-]?[A-Z]{3,9}[ /,-]*\d{2,4})(?!\d)",
    re.IGNORECASE,
)
_LINE = re.compile(r"^([A-Z][A-Z0-9&.,'()@ -]{5,60})$", re.MULTILINE | re.IGNORECASE)
_STREET = re.compile(
    r"^((?:NO\.?|LOT|JALAN|JLN|\d{1,4}[,A-Z ]|UNIT|GROUND)[^\n]{6,}(?:\n[^\n]{6,}){0,3})$",
    re.MULTILINE | re.IGNORECASE,
)


def load(folder: Path) -> dict[str, list[Case]]:
    return {
        "receipts": list(receipts(folder)),
        "packages": list(packages()),
        "short answers": list(short_answers(folder)),
    }


def receipts(folder: Path) -> Iterator[Case]:
    """Company, date, address and total of scanned receipts (ICDAR 2019 SROIE)."""
    for row in json.loads((folder / "sroie.json").read_text(encoding="utf-8")):
        lines = row["text"].splitlines()
        step = RECEIPT_LINES
        passages = ["\n".join(lines[at : at + step]) for at in range(0, len(lines), step)]
        searcher = Searcher(passages)
        for question in _receipt_questions(row["key"], row["text"]):
            search = searcher.find(f"{question.request} {' '.join(question.cues)}")
            yield from run("receipts", row["id"], question, search)


def _receipt_questions(key: dict[str, str], text: str) -> Iterator[Question]:
    if total := key.get("total"):
        amount = _number(total)
        yield Question(
            "total",
            "What is the total amount of this receipt?",
            {"description": "Total amount to pay, rounding included", "format": "money"},
            _AMOUNT,
            ("total", "amount", "round", "cash"),
            lambda value: _number(value) == amount,
            any(_number(m[0]) == amount for m in _AMOUNT.finditer(text)),
        )
    if date := key.get("date"):
        days, _ = only_date(date.lower().strip("()"))
        yield Question(
            "date",
            "On which date was the receipt issued?",
            {"description": "Date of the purchase", "format": "date"},
            _DATE,
            ("date", "time", "invoice"),
            lambda value: any(
                same(one, other) for one in only_date(value.lower())[0] for other in days
            ),
            any(
                same(one, other)
                for m in _DATE.finditer(text)
                for one in only_date(m[0].lower())[0]
                for other in days
            ),
        )
    for name, description, pattern, cues in (
        ("company", "Name of the company that issued the receipt", _LINE,
         ("sdn", "bhd", "enterprise", "trading", "restaurant", "shop")),
        ("address", "Postal address of the shop", _STREET, ("jalan", "taman", "selangor", "johor")),
    ):  # fmt: skip
        true = key.get(name)
        if true:
            yield Question(
                name,
                f"What is the {name} on this receipt?",
                {"description": description},
                pattern,
                cues,
                lambda value, true=true: fuzz.ratio(fold(value), fold(true)) >= NEEDED_SHARE,
                fold(true).replace(" ", "") in fold(text).replace(" ", "")
                or fuzz.partial_ratio(fold(true), fold(text)) >= NEEDED_SHARE,
                lambda value, true=true: (
                    fuzz.partial_ratio(fold(value), fold(true)) >= NEEDED_SHARE
                ),
            )


def _number(text: str) -> float | None:
    figures = re.sub(r"[^\d.]", "", text.replace(",", ""))
    try:
        return float(figures.strip("."))
    except ValueError:
        return None


_PACKAGE_PATTERNS = {
    "license": re.compile(
        "|".join(f"(?:{p.pattern})" for p in grading.NAMES.values()), re.IGNORECASE
    ),
    "author": re.compile(r"(?<![\w@])([A-Z][a-zé'-]+(?: [A-Z][\w.'-]*){1,3})(?!\w)"),
    "minimum_python": re.compile(r"(?<![\d.])([23]\.\d{1,2})(?![\d])"),
    "repository": re.compile(
        rf"https?://(?:www\.)?{grading.HOSTS}/[\w.-]+/[\w.-]*\w", re.IGNORECASE
    ),
    "documentation": re.compile(r"https?://[^\s<>\"')\]`]+"),
    "summary": re.compile(r"(?<![^\n ])([A-Z][^\n.!?]{20,200}[.!?])"),
}
_PACKAGE_CUES = {
    "license": ("license", "licence", "licensed"),
    "author": ("copyright", "author", "maintain", "written by"),
    "minimum_python": ("python", "requires", ">=", "supports"),
    "repository": ("source", "repo", "contribut", "issues"),
    "documentation": ("doc", "manual", "guide"),
    "summary": (" is a", "provides", "library", "package"),
}


def packages() -> Iterator[Case]:
    """Header fields of the distributions on this machine, asked of their README and licences."""
    for environment in sorted(Path().glob(".venv*/lib/python*/site-packages")):
        if str(environment.resolve()) not in sys.path:
            sys.path.append(str(environment.resolve()))
    every = list(documents.installed())
    index = Index(every)
    for document in every:
        passages = [passage.text for passage in document.passages]
        searcher = Searcher(passages)
        for name, field in FIELDS.items():
            accepted = grading.truths(name, document)
            if not accepted:
                continue

            def is_right(
                value: str, name: str = name, accepted: tuple[str, ...] = accepted
            ) -> bool:
                if name == "license":
                    value = grading.license_named(value) or value
                return grading.right(name, value, accepted)

            question = Question(
                name,
                field.question.format(package=document.package),
                {k: v for k, v in field.config().items() if k != "name"}
                if name not in ("license", "repository", "documentation")
                else {"description": field.description},
                _PACKAGE_PATTERNS[name],
                _PACKAGE_CUES[name],
                is_right,
                grading.stated(name, document, accepted),
                lambda value, accepted=accepted: any(fold(value) in fold(a) for a in accepted),
            )
            search = searcher.find(field.search.format(package=document.package))
            yield from run("packages", document.package, question, search)
            yield _demo(index, document, question, passages)


def _demo(index: Index, document: Document, question: Question, passages: list[str]) -> Case:
    """Answer as the demo app does: hybrid search, a rule for each passage, a vote."""
    field = FIELDS[question.field]
    results = hybrid_search(index, field, document.package, LIMITS)
    taken = [
        {**value, "chunk_number": number}
        for number, chunk in enumerate(results.chunks, start=1)
        if (value := find(field.name, document.package, chunk["content"], chunk["page"]))
    ]
    answer = vote(field.name, taken)
    record = Record(
        request=question.request,
        response=answer.value,
        value=answer.value,
        confidence=answer.confidence,
        retrieved_context=to_chunks(results.chunks),
        extractions=to_extractions(taken),
        field_config=field.config(),
        retrieval={"limits": LIMITS, "total_before_filter": results.total_before_filter},
        span_name="extract_field",
    )
    kind = kind_of(question, answer.value, passages)
    return Case("packages", document.package, "the demo", record, kind)


_CAPITALS = re.compile(
    r"(?<![\w.])((?:[A-Z][\w'’-]*)(?: (?:of|the|de|and|du|von)? ?[A-Z][\w'’-]*){0,4})"
)
_YEARS = re.compile(
    r"((?:(?:January|February|March|April|May|June|July|August|September|October|November|December) (?:\d{1,2}, )?)?\b1[0-9]{3}\b|\b20[0-2]\d\b|\b\d{1,2}th(?: and \d{1,2}th)? centur(?:y|ies))"
)
_NUMBERS = re.compile(
    r"(?<![\w.])(\$?\d[\d,.]*(?: ?(?:%|percent|million|billion|thousand|km|miles|years))?)"
)
_NOUNS = re.compile(r"\b(?:the|a|an|of|by|as|called|for|to|in) ((?:[a-z-]{4,} ){0,2}[a-z-]{4,})\b")
UNANSWERABLE = 8
"""One question in so many has no answer in the text."""


def short_answers(folder: Path) -> Iterator[Case]:
    """Answers to questions on encyclopedia paragraphs, unanswerable ones too (SQuAD 2.0)."""
    data = json.loads((folder / "squad2_half.json").read_text(encoding="utf-8"))
    titles: dict[str, list[int]] = {}
    for paragraph in data["paras"]:
        titles.setdefault(paragraph["title"], []).append(paragraph["pid"])
    text = {paragraph["pid"]: paragraph["text"] for paragraph in data["paras"]}
    searchers = {
        title: (Searcher([text[pid] for pid in pids]), pids) for title, pids in titles.items()
    }
    answerable = [row for row in data["qs"] if row.get("ans") and not row["imp"]]
    others = [row for row in data["qs"] if row["imp"]]
    for row in answerable + others[::UNANSWERABLE]:
        searcher, _ = searchers[row["title"]]
        question = _short_question(row)
        if question.field == "what":
            continue
        search = searcher.find(row["q"], 4)
        yield from run("short answers", row["title"], question, search)


def _short_question(row: dict) -> Question:
    asked = row["q"].lower()
    if re.search(r"\bwhen\b|what (?:year|date|century)|which (?:year|century)", asked):
        kind, pattern, description = "when", _YEARS, "Date or year that the question asks for"
    elif re.search(r"how (?:many|much|long|old|far|big|high)|what percent|what number", asked):
        kind, pattern, description = "how_many", _NUMBERS, "Number that the question asks for"
    elif re.search(r"\bwho|\bwhere|\bwhich|what (?:country|city|name|person|group|company)", asked):
        kind, pattern, description = "who", _CAPITALS, "Name that the question asks for"
    else:
        kind, pattern, description = "what", _NOUNS, "Words of the text that answer the question"
    answers = [" ".join(_content(a)) for a in row.get("ans") or ()]
    cues = tuple(sorted((w for w in words(asked) if len(w) > 3), key=len, reverse=True)[:6])

    def is_right(value: str) -> bool:
        mine = " ".join(_content(value))
        return any(
            mine == one or (len(mine) > 3 and fuzz.ratio(mine, one) >= 80) for one in answers
        )

    def is_partial(value: str) -> bool:
        mine = " ".join(_content(value))
        return bool(mine) and any(mine in one or (one and one in mine) for one in answers)

    return Question(
        kind, row["q"], {"description": description}, pattern, cues, is_right,
        not row["imp"] and bool(answers), is_partial,
    )  # fmt: skip


def _content(text: str) -> list[str]:
    return [w for w in fold(text).split() if w not in ("the", "a", "an", "of", "in", "and", "to")]
