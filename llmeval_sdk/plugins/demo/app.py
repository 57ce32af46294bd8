"""The demo's app: it extracts fields from the documents of the installed distributions.

A document is the README that a distribution carries, plus the licence and authors files that it
ships. Its metadata header is no part of the text: it is the ground truth. Where an app would call
its model, rules take one value of a field out of one passage, so that the demo runs anywhere and
costs nothing. Like a model they are wrong now and then.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import llmeval_sdk as llmeval
from llmeval_sdk.model.protocols import Heuristic


LIMIT = 10
PIECE_CHARACTERS, FILE_CHARACTERS = 900, 60_000
_SHIPPED = re.compile(
    r"[^/]+\.dist-info/(licenses/)?(licen[cs]e|copying|notice|authors)[^/]*", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Document:
    """One distribution: its passages, the words of each, and the header to compare with."""

    package: str
    header: Any
    passages: list[dict[str, Any]]
    words: list[Counter[str]]


def documents() -> Iterator[Document]:
    """Read every distribution that has a long description, in the order of their names."""
    everything: dict[str, metadata.Distribution] = {}
    for distribution in metadata.distributions():
        header: Any = distribution.metadata  # an email message, and nothing after some uninstalls
        name = str(header["Name"] or "") if header is not None else ""
        if name not in ("", "llmeval-inprocess"):
            everything.setdefault(name.lower(), distribution)
    for name in sorted(everything):
        header = everything[name].metadata
        readme = str(header.get_payload() or header.get("Description") or "")
        if len(readme.strip()) >= 200:
            yield compose(name, header, {"README": readme, **_shipped(everything[name])})


def _shipped(distribution: metadata.Distribution) -> dict[str, str]:
    """Return the licence and authors files of a distribution."""
    files = [file for file in distribution.files or () if _SHIPPED.fullmatch(str(file))]
    paths = {file.name: Path(str(file.locate())) for file in files}
    return {
        name: path.read_text("utf-8", "replace") for name, path in paths.items() if path.is_file()
    }


def compose(package: str, header: Any, files: dict[str, str]) -> Document:
    """Cut files into the passages of one document."""
    passages = [
        {"content": piece, "doc_uri": f"{package}/{name}", "chunk_id": f"{package}/{name}#{number}"}
        for name, text in files.items()
        for number, piece in enumerate(_pieces(text[:FILE_CHARACTERS]))
    ]
    return Document(package, header, passages, [_words(one["content"]) for one in passages])


def _pieces(text: str) -> Iterator[str]:
    """Pack paragraphs into pieces of about `PIECE_CHARACTERS`."""
    held = ""
    for paragraph in re.split(r"\n\s*\n", text):
        if held and len(held) + len(paragraph) > PIECE_CHARACTERS:
            yield held
            held = ""
        held = f"{held}\n\n{paragraph}".strip()
    if held:
        yield held


def _words(text: str) -> Counter[str]:
    return Counter(word.lower().removesuffix("s") for word in re.findall(r"[^\W_]+", text))


def search(document: Document, field: Field) -> tuple[list[dict[str, Any]], int]:
    """Rank by BM25 what can answer a field; also return how many passages matched before that."""
    among = Counter(word for counts in document.words for word in counts)
    rare = {
        word: math.log(1 + len(document.words) / (among[word] or 0.5))
        for word in _words(field.search.format(package=document.package))
    }
    scores = [
        sum(weight * counts[word] / (counts[word] + 1.5) for word, weight in rare.items())
        for counts in document.words
    ]
    order = sorted(range(len(scores)), key=lambda place: -scores[place])[:LIMIT]
    hits = [place for place in order if scores[place] > 0]
    chunks = [
        {**document.passages[place], "score": round(scores[place] / sum(rare.values()), 3)}
        for place in hits
        if field.holds.search(document.passages[place]["content"])
    ]
    return [{**chunk, "retrieval_method": "bm25"} for chunk in chunks], len(hits)


# The fields: what is asked, the rule that takes a value, and the header's answers.

LICENSES = {
    "Apache-2.0": r"apache[ -](?:software )?licen[cs]e|apache[- ]?2|licensed under the apache",
    "MPL-2.0": r"mozilla public licen[cs]e|\bmpl[- ]?v?2",
    "LGPL": r"lesser general public licen[cs]e|\blgpl",
    "GPL": r"(?<!lesser )general public licen[cs]e|\bgpl",
    "BSD": r"\bbsd\b|redistribution and use in source and binary forms",
    "PSF-2.0": r"python software foundation licen[cs]e|\bpsf\b",
    "ISC": r"\bisc\b(?: licen[cs]e)?|use, copy, modify, and/or distribute this software",
    "MIT": r"\bmit\b|permission is hereby granted, free of charge, to any person",
}
_COPYRIGHT = re.compile(
    r"copyright\s+(?:(?:\(c\)|©|\d{4}|to|present|by|[-–,])\s*)+([^\W\d_][^\n<>(){},;:\[\]\"]{2,50})",
    re.IGNORECASE,
)
_NOBODY = re.compile(r"\b(?:authors?|copyright|licen[cs]e|owner|holders?|notice)\b", re.IGNORECASE)
_REPOSITORY = re.compile(
    r"(?:github|gitlab|bitbucket|codeberg)\.(?:com|org)/(?!sponsors/)[\w.-]+/[\w.-]*\w",
    re.IGNORECASE,
)
Value = tuple[str, float, str]
"""What a rule takes from a passage: a value, how sure it is, and the words it was taken from."""


def _license(text: str) -> Value | None:
    matches = [
        (found, name)
        for name, pattern in LICENSES.items()
        if (found := re.search(pattern, text, re.IGNORECASE))
    ]
    first = min(matches, key=lambda match: match[0].start(), default=None)
    return None if first is None else (first[1], 0.9, first[0][0])


def _author(text: str) -> Value | None:
    for match in _COPYRIGHT.finditer(text):
        name = re.split(r"\.(?: |$)|\ball rights|\band ", match[1], flags=re.IGNORECASE)[0]
        if len(name) > 2 and not _NOBODY.search(name):
            return name.strip(" .*_"), 0.8, match[0]
    return None


def _repository(text: str) -> Value | None:
    links = Counter(normal("repository", link) for link in _REPOSITORY.findall(text))
    best, count = links.most_common(1)[0] if links else ("", 0)
    return (best, min(0.2 + 0.2 * count, 0.9), best) if links else None


@dataclass(frozen=True, slots=True)
class Field:
    """One question asked of every document."""

    question: str
    search: str
    """What is searched for; ``{package}`` is the document's name."""
    holds: re.Pattern[str]
    """What a passage has to hold to be able to answer at all."""
    description: str
    rule: Callable[[str], Value | None]
    header: tuple[str, ...]
    """Where the header has the truth."""


FIELDS = {
    "license": Field(
        "Under which licence is {package} released?", "license licensed under terms permission",
        re.compile("|".join(LICENSES.values()), re.IGNORECASE), "SPDX identifier of the licence",
        _license, ("License-Expression", "License", "Classifier"),
    ),
    "author": Field(
        "Who wrote or maintains {package}?", "copyright (c) by author maintainer rights reserved",
        _COPYRIGHT, "Name of a person or organisation that wrote or maintains the package",
        _author, ("Author", "Maintainer", "Author-Email", "Maintainer-Email"),
    ),
    "repository": Field(
        "Where is the source code of {package}?",
        "source code github repository issues contributing bug report pull request", _REPOSITORY,
        "Address of the source code repository", _repository, ("Project-URL", "Home-Page"),
    ),
}  # fmt: skip


def normal(field: str, value: str) -> str:
    """Bring a value to the form in which two spellings of one thing are equal."""
    if field == "author":
        bare = unicodedata.normalize("NFKD", value).encode("ascii", "ignore").decode()
        return " ".join(re.findall(r"[a-z]+", bare.partition("<")[0].lower()))
    link = _REPOSITORY.search(value)
    return "https://" + link[0].lower().removesuffix(".git") if link else value.strip()


def truths(field: str, document: Document) -> tuple[str, ...]:
    """Return every right answer that the header gives; empty where it is silent."""
    lines = [line for name in FIELDS[field].header for line in document.header.get_all(name) or ()]
    answers: list[str] = []
    for line in lines:
        if field == "license" and len(line) < 100 and (licensed := _license(line)):
            answers.append(licensed[0])
        elif field == "author":
            answers += [
                name
                for part in re.split(r",|;| and ", line)
                if "@" not in part.partition("<")[0] and (name := normal(field, part))
            ]
        elif field == "repository":
            answers += [normal(field, link) for link in _REPOSITORY.findall(line)]
    return tuple(dict.fromkeys(answers))


# The app: search, extract, vote. Two decorators, a `with` block and two calls of `annotate`.


class FieldExtractor:
    """Answers one field of one document at a time."""

    def __init__(self, read: Sequence[Document]) -> None:
        self._documents = {document.package: document for document in read}

    @llmeval.workflow
    def extract_field(self, field: str, package: str) -> str | None:
        """Find the value of a field; ``None`` where nothing in the document looks like one."""
        question = FIELDS[field].question.format(package=package)
        llmeval.annotate(
            request=question,
            field_config={"name": field, "description": FIELDS[field].description},
            tags={"field": field},
            metadata={"package": package},
        )
        with llmeval.retrieval("search", request=question) as step:
            chunks, total = search(self._documents[package], FIELDS[field])
            step.retrieved_context = chunks
        extractions = self.extract(field, chunks)
        value, confidence = vote(field, extractions)
        llmeval.annotate(
            extractions=extractions,
            confidence=confidence,
            retrieval={"limits": {"bm25": LIMIT}, "total_before_filter": total},
        )
        return value

    @llmeval.task
    def extract(self, field: str, chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Ask every chunk for the value; most have none. An app would call its model here."""
        values = [(number, FIELDS[field].rule(chunk["content"])) for number, chunk in
                  enumerate(chunks, start=1)]  # fmt: skip
        return [
            {"value": value[0], "confidence": round(value[1], 2), "chunk_number": number,
             "evidence": " ".join(value[2].split())[:200]}
            for number, value in values if value is not None
        ]  # fmt: skip


def vote(field: str, extractions: list[dict[str, Any]]) -> tuple[str | None, str]:
    """Sum the confidence of equal values: the best one, and how sure that makes us."""
    weight: Counter[str] = Counter()
    for one in extractions:
        weight[normal(field, one["value"])] += one["confidence"]
    if not weight:
        return None, "LOW"
    (best, most), share = weight.most_common(1)[0], 1 / sum(weight.values())
    sure = (
        "HIGH" if most * share > 0.7 and most >= 0.8 else "MEDIUM" if most * share > 0.5 else "LOW"
    )
    return next(one["value"] for one in extractions if normal(field, one["value"]) == best), sure


# How an answer compares with the header.

OUTCOMES = ("right", "wrong", "none")


@dataclass(frozen=True, slots=True)
class Key:
    """The right answers to one field of one document."""

    document: Document
    field: str
    accepted: tuple[str, ...]


def keys(read: Sequence[Document], fields: Sequence[str]) -> list[Key]:
    """Read the ground truth; a field that a header leaves out is not asked of that document."""
    every = [Key(document, field, truths(field, document)) for document in read for field in fields]
    return [key for key in every if key.accepted]


def outcome(key: Key, value: object) -> str:
    """Sort an answer into one of `OUTCOMES`; a name may be longer than the header has it."""
    words = set(normal(key.field, str(value or "")).split())
    for truth in map(set[str], (answer.split() for answer in key.accepted)):
        shared = words & truth
        if words and (words == truth or (len(shared) > 1 and shared in (words, truth))):
            return "right"
    return "wrong" if value else "none"


def grader(answers: Sequence[Key]) -> Heuristic:
    """Make the evaluator that knows the ground truth, as an app would with its own."""
    known = {(key.document.package, key.field): key for key in answers}

    @llmeval.heuristic(needs=["field_config"], automatic=False)
    def against_header(record: llmeval.Record) -> llmeval.Evaluation | None:
        field = (record.field_config or {}).get("name", "")
        key = known.get((record.attributes.get("package", ""), field))
        if key is None:
            return None
        expected = " or ".join(key.accepted[:3])
        return llmeval.Evaluation(
            "against_header", outcome(key, record.value), explanation=f"header: {expected}"[:300]
        )

    return against_header
