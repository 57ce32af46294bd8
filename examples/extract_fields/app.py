"""The app itself, as one would write it around a model: search, extract, vote.

Three decorators, a ``with`` block and two ``annotate`` calls are what the SDK asks for. Where an
app would call its model, rules take one value of a field out of one passage (`find`), so that the
demo runs anywhere and costs nothing. Like a model they are wrong now and then.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from extract_fields.documents import FIELDS
from extract_fields.grading import HOSTS, license_named, license_worded, normal, sentences
from extract_fields.search import Index, search, words

import llmeval_sdk as llmeval


class FieldValue(TypedDict):
    """A value, how sure the rule is, and the words it was taken from."""

    value: str
    confidence: float
    evidence: str


def find(field: str, package: str, text: str, page: int = 1) -> FieldValue | None:
    """Apply the rule of a field to one passage of a package's document."""
    return _RULES[field](package, text, page)


def _license(_: str, text: str, __: int) -> FieldValue | None:
    """Take a name beside the word licence, else wording that only one licence has."""
    for line in text.splitlines():
        spdx = license_named(line) if re.search("licen[cs]e", line, re.IGNORECASE) else None
        if spdx:
            return _found(spdx, 0.6 if spdx == "BSD" else 0.9, _short(line))
    wording = license_worded(text)
    return _found(wording[0], 0.8, _short(wording[1])) if wording else None


_PERSON = r"[^\W\d_a-z][\w'’.-]*(?: (?:van|von|der|de|la|[^\W\d_a-z][\w'’.-]*)){0,4}"
_COPYRIGHT = re.compile(
    r"copyright\s+(?:(?:\(c\)|©|&copy;|\d{4}|to|present|by|[-–,])\s*)+"
    r"((?:the )?[^\W\d_][^\n<>(){},;:\[\]\"]{2,50})",
    re.IGNORECASE,
)
_HEADING = r"(?i:\b(?:authors?|maintainers?|written by)\s{0,9}(?::|\n[-=]{1,99}\n)\W{0,9})"
_CREDITS = (
    (0.9, rf"{_HEADING}({_PERSON})"),
    (0.7, rf"(?i:(?:written|created|developed|maintained)(?: and \w+)? by[\s:\[*]+)({_PERSON})"),
)
_NOBODY = re.compile(
    r"\b(authors?|copyright|licen[cs]e|owner|holders?|notice|yyyy|statement)\b", re.IGNORECASE
)


def _author(_: str, text: str, __: int) -> FieldValue | None:
    """Take whoever holds the copyright, stands under "author", or is thanked for the writing."""
    for match in _COPYRIGHT.finditer(text):
        name = re.split(
            r"\.(?: |$)|\ball rights|\band (?:\w+ )?contributors", match[1], flags=re.IGNORECASE
        )[0]
        if len(name) > 2 and not _NOBODY.search(name):
            return _found(name.strip(" .*_"), 0.8, _short(match[0]))
    for confidence, pattern in _CREDITS:
        for match in re.finditer(pattern, text):
            if not _NOBODY.search(match[1]):
                return _found(match[1].strip(" ."), confidence, _short(match[0]))
    return None


_VERSION = r"(?<![\d.])(2\.[67]|3\.\d{1,2})(?!\d)(?:\.\d+)?"
_LATER = r"(?:and|or) (?:above|later|newer|up|higher|greater)"
_PYTHONS = (
    (0.9, rf"python\W{{0,12}}(?:version )?{_VERSION}\W{{0,3}}(?:\+|{_LATER}|to\b|-|–)"),
    (0.9, rf"python\W{{0,4}}(?:>=|≥|&gt;=)\W{{0,3}}{_VERSION}"),
    (0.8, rf"(?:requires?|needs?|at least)[^\n.]{{0,30}}?python\W{{0,4}}(?:versions? )?{_VERSION}"),
    (0.6, rf"(?:supports?|works? (?:on|with)|tested|compatible)[^\n]{{0,60}}?{_VERSION}"),
    (0.3, rf"python\W{{0,4}}{_VERSION}"),
)
_PASSING = re.compile(
    r"drop|remov|no longer|deprecat|end of|before|prior|older|\badd|licen", re.IGNORECASE
)


def _minimum_python(_: str, text: str, __: int) -> FieldValue | None:
    """Take a stated lowest version, else one that is mentioned, never one that came or went."""
    for confidence, pattern in _PYTHONS:
        for match in re.finditer(pattern, text, re.IGNORECASE):
            line = text[text.rfind("\n", 0, match.start()) + 1 : match.end()]
            if not _PASSING.search(line):
                return _found(match[1], confidence, _short(match[0]))
    return None


_REPOSITORY = re.compile(
    rf"{HOSTS}/(?!sponsors/|orgs/|features/|apps/)[\w.-]+/[\w.-]*\w", re.IGNORECASE
)


def _repository(package: str, text: str, _: int) -> FieldValue | None:
    """Take the repository linked to most, surer when it is called like the package."""
    links = [normal("repository", link) for link in _REPOSITORY.findall(text)]
    own = [link for link in links if _alike(link.rsplit("/", 1)[-1], package)]
    if not links:
        return None
    best, count = Counter(own or links).most_common(1)[0]
    return _found(best, 0.9 if own else min(0.1 + 0.1 * count, 0.4), best)


_URL = re.compile(r"https?://[^\s<>\"')\]`]+")
_NOT_DOCS = re.compile(r"shields\.io|badge|\.(svg|png|gif|jpe?g)\b|/actions/|codecov|/issues")


def _documentation(package: str, text: str, _: int) -> FieldValue | None:
    """Take an address on a documentation host, or beside the word documentation."""
    best: FieldValue | None = None
    for match in _URL.finditer(text):
        url = match[0].rstrip(".,;:*_")
        before = text[max(text.rfind("\n", 0, match.start()), match.start() - 40) : match.start()]
        host = re.search(r"//(docs?\.|[\w.-]*readthedocs)|\.github\.io|/docs?\b", url)
        word = re.search(r"\bdoc(s|umentation)\b|manual|user guide", before, re.IGNORECASE)
        sure = 0.4 * bool(host) + 0.35 * bool(word) + 0.15 * (_squash(package) in _squash(url))
        if (host or word) and not _NOT_DOCS.search(url) and (not best or sure > best["confidence"]):
            best = _found(normal("documentation", url), sure, _short(before + url))
    return best


def _summary(package: str, text: str, page: int) -> FieldValue | None:
    """Take the sentence that says what the package is, surer near the top of the document."""
    name = re.sub(r"[-_ ]", "[-_ ]", package)
    subject = rf"((the )?(python )?\W*{name}\W*( \([^)]*\))?( \w+)?|this( (library|package))?)"
    defines = re.compile(rf"{subject} (is( \w+)? an?|is the|are)\b", re.IGNORECASE)
    explains = re.compile(
        rf"{subject} (provides|offers|implements|contains|lets|exposes)\b", re.IGNORECASE
    )
    best: FieldValue | None = None
    for sentence in sentences(text):
        if not 3 <= len(words(sentence)) <= 40 or "http" in sentence:
            continue
        sure = 0.9 if defines.match(sentence) else 0.7 if explains.match(sentence) else 0.4
        sure = sure if page == 1 else sure / 2
        if best is None or sure > best["confidence"]:
            best = _found(sentence, sure, sentence)
    return best


_RULES: dict[str, Callable[[str, str, int], FieldValue | None]] = {
    "license": _license,
    "author": _author,
    "minimum_python": _minimum_python,
    "repository": _repository,
    "documentation": _documentation,
    "summary": _summary,
}


def _alike(repository: str, package: str) -> bool:
    mine, theirs = _squash(repository), _squash(package)
    return mine.removeprefix("python").removesuffix("python") == theirs or mine == theirs


def _found(value: str, confidence: float, evidence: str) -> FieldValue:
    return {"value": value, "confidence": round(confidence, 2), "evidence": evidence}


def _squash(text: str) -> str:
    return re.sub(r"[-_.]", "", text.lower())


def _short(text: str) -> str:
    return " ".join(text.split())[:200]


@dataclass(frozen=True, slots=True)
class VotedValue:
    """What the passages agree on, and how sure that makes us: HIGH, MEDIUM or LOW."""

    value: str | None
    confidence: str


def vote(field: str, found: Iterable[Mapping[str, Any]]) -> VotedValue:
    """Sum the confidence of equal values; the spelling used most stands for its group."""
    weight: dict[str, float] = defaultdict(float)
    spelled: dict[str, Counter[str]] = defaultdict(Counter)
    for one in found:
        group = normal(field, one["value"])
        weight[group] += one["confidence"]
        spelled[group][one["value"]] += 1
    if not weight:
        return VotedValue(None, "LOW")
    best = max(weight, key=lambda group: weight[group])
    share = weight[best] / sum(weight.values())
    sure = "HIGH" if share > 0.7 and weight[best] >= 0.8 else "MEDIUM" if share > 0.5 else "LOW"
    return VotedValue(spelled[best].most_common(1)[0][0], sure)


LIMITS = {"bm25": 10, "knn": 10}


class FieldExtractor:
    """Answers one field of one document at a time."""

    def __init__(self, index: Index) -> None:
        self._index = index

    @llmeval.workflow
    def extract_field(self, field: str, package: str) -> str | None:
        """Find the value of a field; ``None`` where nothing in the document looks like one."""
        question = FIELDS[field].question.format(package=package)
        llmeval.annotate(
            request=question,
            field_config=FIELDS[field].config(),
            tags={"field": field},
            metadata={"package": package},
        )
        with llmeval.retrieval("hybrid_search", request=question) as step:
            found = search(self._index, FIELDS[field], package, LIMITS)
            step.retrieved_context = found.chunks
        extractions = self.extract(field, package, found.chunks)
        answer = self.aggregate(field, extractions)
        llmeval.annotate(
            extractions=extractions,
            confidence=answer.confidence,
            retrieval={"limits": LIMITS, "total_before_filter": found.total_before_filter},
        )
        return answer.value

    @llmeval.task
    def extract(
        self, field: str, package: str, chunks: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Ask every chunk for the value; most have none. An app would call its model here."""
        extractions = []
        for number, chunk in enumerate(chunks, start=1):
            value = find(field, package, chunk["content"], chunk["page"])
            if value is not None:
                extractions.append({**value, "chunk_number": number})
        return extractions

    @llmeval.task
    def aggregate(self, field: str, extractions: list[dict[str, Any]]) -> VotedValue:
        """Let the extractions vote; a chunk that both searches found votes twice."""
        return vote(field, extractions)
