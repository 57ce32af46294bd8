"""Real extraction runs over labelled documents: simple extractors, and the mistakes they make.

Nothing is injected. Each document is cut into passages, searched in two ways, and asked for its
fields by six small apps of different kinds; the ground truth says which of their values are right.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llmeval_sdk.model import Chunk, Extraction, Record
from llmeval_sdk.text.values import abstained


TOP = 6
KINDS = ("right", "present", "partial", "format", "invented", "missed", "abstained")
"""`present`: another value of the document; `missed`: no answer although the document has one."""

Candidate = tuple[str, str, int, float]
"""A value, the words that it was taken from, its passage (0-based) and the confidence, 0..1."""


@dataclass(frozen=True)
class Question:
    """One field of one document, and how to tell a right value."""

    field: str
    request: str
    config: Mapping[str, Any]
    pattern: re.Pattern[str]
    """What looks like a value; group 1 is the value where there is one."""
    cues: tuple[str, ...]
    """Words that the app's author would look for beside a value."""
    is_right: Callable[[str], bool]
    is_stated: bool
    """Whether the document has a right value at all."""
    is_partial: Callable[[str], bool] = field(default=lambda _: False)


@dataclass(frozen=True)
class Case:
    """One record of one app, and what became of it."""

    source: str
    group: str
    app: str
    record: Record
    kind: str

    @property
    def answered(self) -> bool:
        return self.kind not in ("missed", "abstained")

    @property
    def label(self) -> int:
        """1 where the value is wrong."""
        return int(self.kind != "right")


@dataclass(frozen=True)
class Search:
    """A document's passages ranked for one question."""

    passages: Sequence[str]
    lexical: Sequence[tuple[int, float]]
    dense: Sequence[tuple[int, float]]

    @property
    def fused(self) -> list[int]:
        standing: dict[int, float] = defaultdict(float)
        for ranking in (self.lexical, self.dense):
            for rank, (place, _) in enumerate(ranking):
                standing[place] += 1 / (60 + rank)
        return sorted(standing, key=lambda place: (-standing[place], place))[:TOP]

    def chunks(self) -> tuple[tuple[Chunk, ...], dict[int, int]]:
        """Return the retrieved chunks, and passage -> chunk number."""
        scores = {"bm25": dict(self.lexical), "knn": dict(self.dense)}
        made: list[Chunk] = []
        numbers: dict[int, int] = {}
        for place in self.fused:
            for method, ranked in scores.items():
                if place in ranked:
                    numbers.setdefault(place, len(made) + 1)
                    made.append(
                        Chunk(
                            self.passages[place],
                            chunk_id=str(place),
                            score=round(ranked[place], 3),
                            page=place // 3 + 1,
                            retrieval_method=method,
                        )
                    )
        return tuple(made), numbers


def words(text: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[^\W_]+", text)]


class Searcher:
    """BM25 over words and cosine over character trigrams, within one collection of passages."""

    def __init__(self, passages: Sequence[str]) -> None:
        self.passages = passages
        self._counts = [Counter(words(passage)) for passage in passages]
        self._grams = [Counter(_grams(passage)) for passage in passages]
        self._having = Counter(word for counts in self._counts for word in counts)
        self._norms = [math.sqrt(sum(v * v for v in g.values())) or 1.0 for g in self._grams]
        self._mean = sum(sum(c.values()) for c in self._counts) / max(1, len(passages)) or 1.0

    def find(self, query: str, top: int = TOP) -> Search:
        total = len(self.passages)
        lexical, dense = [], []
        asked, grams = set(words(query)), Counter(_grams(query))
        size = math.sqrt(sum(v * v for v in grams.values())) or 1.0
        most = sum(
            math.log(1 + (total - self._having[w] + 0.5) / (self._having[w] + 0.5)) for w in asked
        )
        for place, counts in enumerate(self._counts):
            length = sum(counts.values())
            score = sum(
                math.log(1 + (total - self._having[w] + 0.5) / (self._having[w] + 0.5))
                * counts[w]
                / (counts[w] + 1.5 * (0.25 + 0.75 * length / self._mean))
                for w in asked
                if counts[w]
            )
            if score > 0:
                lexical.append((place, min(1.0, score / (most or 1.0))))
            own = self._grams[place]
            cosine = sum(v * own[g] for g, v in grams.items() if g in own)
            if cosine > 0:
                dense.append((place, cosine / (size * self._norms[place])))
        for ranking in (lexical, dense):
            ranking.sort(key=lambda hit: (-hit[1], hit[0]))
        return Search(self.passages, lexical[:top], dense[:top])


def _grams(text: str) -> Iterator[str]:
    for word in words(text):
        padded = f" {word} "
        for start in range(len(padded) - 2):
            yield padded[start : start + 3]


# -- the apps: each returns its extractions and the value that it settles on ----------------------

Answer = tuple[list[Candidate], str | None, str | None]
"""The extractions, the value, and the confidence of the whole in a word."""


def matches(question: Question, passage: str) -> list[tuple[str, int, int]]:
    return [
        ((m[1] if m.re.groups and m[1] else m[0]).strip(" .,:;"), m.start(), m.end())
        for m in question.pattern.finditer(passage)
        if m[0].strip(" .,:;") and m[0].strip(" .,:;").lower() not in question.request.lower()
    ]


def evidence(passage: str, start: int, end: int) -> str:
    first = passage.rfind("\n", 0, start) + 1
    last = passage.find("\n", end)
    line = passage[first : last if last >= 0 else len(passage)]
    if len(line) < end - start + 12 and first:
        before = passage.rfind("\n", 0, first - 1) + 1
        line = passage[before : last if last >= 0 else len(passage)]
    at = max(0, start - first - 120)
    return line[at : at + 300]


def nearness(question: Question, passage: str, start: int, end: int) -> float:
    """1 right beside a cue, falling to 0 at 80 characters; further cues add a third each."""
    before, after = passage[max(0, start - 80) : start].lower(), passage[end : end + 80].lower()
    near = []
    for cue in question.cues:
        at, behind = before.rfind(cue), after.find(cue)
        left = 1 - (len(before) - at - len(cue)) / 90 if at >= 0 else 0.0
        right = 0.7 - behind / 120 if behind >= 0 else 0.0
        near.append(max(left, right))
    near.sort(reverse=True)
    return min(1.0, (near[0] + sum(near[1:]) / 3) / 1.6) if near else 0.0


def first_pattern(question: Question, search: Search) -> Answer:
    """Take the first match of the document, whatever stands around it."""
    for place, passage in enumerate(search.passages):
        for value, start, end in matches(question, passage)[:1]:
            return [(value, evidence(passage, start, end), place, 0.7)], value, None
    return [], None, None


def nearest_cue(question: Question, search: Search) -> Answer:
    """Take the match that stands nearest to a cue, sure in proportion."""
    best: tuple[float, Candidate] | None = None
    for place in search.fused:
        passage = search.passages[place]
        for value, start, end in matches(question, passage):
            near = nearness(question, passage, start, end)
            if best is None or near > best[0]:
                best = (
                    near,
                    (value, evidence(passage, start, end), place, round(0.4 + 0.5 * near, 2)),
                )
    return ([best[1]], best[1][0], None) if best else ([], None, None)


def top_of(side: str) -> Callable[[Question, Search], Answer]:
    def app(question: Question, search: Search) -> Answer:
        ranking = search.lexical if side == "bm25" else search.dense
        for place, score in ranking[:2]:
            passage = search.passages[place]
            for value, start, end in matches(question, passage)[:1]:
                sure = round(min(0.95, 0.3 + score), 2)
                return [(value, evidence(passage, start, end), place, sure)], value, None
        return [], None, None

    return app


def per_chunk(question: Question, search: Search) -> Answer:
    """Ask every retrieved chunk, and let the extractions vote, as the demo does."""
    taken: list[Candidate] = []
    for place in search.fused:
        passage = search.passages[place]
        options = [
            (nearness(question, passage, start, end), -start, value, end)
            for value, start, end in matches(question, passage)
        ]
        if options:
            near, start, value, end = max(options)
            taken.append((value, evidence(passage, -start, end), place, round(0.3 + 0.6 * near, 2)))
    return vote(taken)


def committee(question: Question, search: Search) -> Answer:
    """Let four extractors of different kinds vote; none says how sure it is."""
    taken: list[Candidate] = []
    for app in (first_pattern, nearest_cue, top_of("bm25"), last_match):
        taken += [(value, text, place, 0.0) for value, text, place, _ in app(question, search)[0]]
    return vote(taken)


def last_match(question: Question, search: Search) -> Answer:
    for place in sorted(search.fused, reverse=True):
        passage = search.passages[place]
        for value, start, end in matches(question, passage)[-1:]:
            return [(value, evidence(passage, start, end), place, 0.5)], value, None
    return [], None, None


def vote(taken: list[Candidate]) -> Answer:
    if not taken:
        return [], None, "LOW"
    weight: dict[str, float] = defaultdict(float)
    spelled: dict[str, Counter[str]] = defaultdict(Counter)
    for value, _, _, sure in taken:
        key = " ".join(words(value))
        weight[key] += sure or 1.0
        spelled[key][value] += 1
    best = max(weight, key=lambda key: weight[key])
    share = weight[best] / sum(weight.values())
    word = "HIGH" if share > 0.7 and len(taken) > 1 else "MEDIUM" if share > 0.5 else "LOW"
    return taken, spelled[best].most_common(1)[0][0], word


APPS: Mapping[str, Callable[[Question, Search], Answer]] = {
    "first pattern": first_pattern,
    "nearest cue": nearest_cue,
    "bm25 top": top_of("bm25"),
    "vector top": top_of("knn"),
    "vote of chunks": per_chunk,
    "committee": committee,
}


def run(source: str, group: str, question: Question, search: Search) -> Iterator[Case]:
    """Let every app answer one question."""
    for name, app in APPS.items():
        taken, value, confidence = app(question, search)
        chunks, numbers = search.chunks()
        extractions = tuple(
            Extraction(v, numbers.get(place), sure or None, text) for v, text, place, sure in taken
        )
        record = Record(
            request=question.request,
            response=value,
            value=value,
            retrieved_context=chunks,
            extractions=extractions,
            confidence=confidence,
            field_config={"name": question.field, **question.config},
            attributes={"document": group},
            span_name="extract_field",
        )
        yield Case(source, group, name, record, kind_of(question, value, search.passages))


def kind_of(question: Question, value: str | None, passages: Sequence[str]) -> str:
    if abstained(value):
        return "missed" if question.is_stated else "abstained"
    if question.is_right(value):
        return "right"
    if not question.is_stated:
        return "invented"
    if question.is_partial(value):
        return "partial"
    form = question.config.get("format")
    if form:
        from llmeval_sdk.heuristics._reading import matches as fits

        if fits(value, form) is False:
            return "format"
    return "present"
