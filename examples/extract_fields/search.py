"""Hybrid retrieval: BM25 over words and latent semantic analysis over meaning, in one ranked list.

Latent semantic analysis is TF-IDF followed by a truncated singular value decomposition, so that a
passage can be found by words that it does not hold. Both score in 0..1.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from extract_fields.documents import Document, DocumentChunk, Field


DIMENSIONS = 64
K1, B = 1.5, 0.75
Hit = tuple[DocumentChunk, float]
_WORD = re.compile(r"[^\W_]+")
_STOP = frozenset(
    _WORD.findall(
        "a an and are as at be by can do does for from has have how i if in is it its may not of "
        "on or our so such than that the their them these they this to under was we were what "
        "where which who will with you your"
    )
)


def words(text: str) -> list[str]:
    """Split into lower-case words without stop words; a plural becomes its singular."""
    found = (word.lower() for word in _WORD.findall(text))
    return [_singular(word) for word in found if word not in _STOP]


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


class Index:
    """All passages of all documents, searched one document at a time."""

    def __init__(self, documents: Sequence[Document]) -> None:
        import bm25s  # type: ignore[import-untyped,unused-ignore]

        self._passages = [passage for document in documents for passage in document.passages]
        self._spans: dict[str, slice] = {}
        start = 0
        for document in documents:
            self._spans[document.package] = slice(start, start + len(document.passages))
            start += len(document.passages)
        texts = [words(passage.text) or ["-"] for passage in self._passages]
        self._bm25 = bm25s.BM25(method="lucene", k1=K1, b=B)
        self._bm25.index(texts, show_progress=False)
        self._columns = {word: at for at, word in enumerate(sorted({w for t in texts for w in t}))}
        self._fit(texts)

    def __len__(self) -> int:
        return len(self._passages)

    def bm25(self, question: str, package: str) -> list[Hit]:
        """Rank by BM25, each score divided by the most that the question could score at all.

        (Divided by the best hit instead, a question without a good hit would look like one with.)
        """
        import numpy as np

        known = [word for word in words(question) if word in self._columns]
        if not known:
            return []
        within = self._spans[package]
        scores = self._bm25.get_scores(known)[within]
        # Lucene's term weight stays below idf: its (k1 + 1) factor is left out.
        most = float(np.sum(self._idf_lucene[[self._columns[word] for word in known]]))
        return self._ranked(scores / most, within)

    def knn(self, question: str, package: str) -> list[Hit]:
        """Rank by the cosine between question and passage in the latent space."""
        import numpy as np

        vector = np.zeros(len(self._columns))
        for word, count in Counter(words(question)).items():
            if word in self._columns:
                vector[self._columns[word]] = 1 + np.log(count)
        point = (vector * self._idf) @ self._axes
        length = float(np.linalg.norm(point))
        if length == 0:
            return []
        within = self._spans[package]
        return self._ranked(self._points[within] @ (point / length), within)

    def _ranked(self, scores: Any, within: slice) -> list[Hit]:
        import numpy as np

        passages = self._passages[within]
        order = np.argsort(-scores, kind="stable")
        return [(passages[i], min(float(scores[i]), 1.0)) for i in order if scores[i] > 0]

    def _fit(self, texts: Sequence[Sequence[str]]) -> None:
        import numpy as np
        from scipy.sparse import csr_matrix  # type: ignore[import-untyped,unused-ignore]
        from scipy.sparse.linalg import svds  # type: ignore[import-untyped,unused-ignore]

        rows, columns, values = [], [], []
        for row, text in enumerate(texts):
            for word, count in Counter(text).items():
                rows.append(row)
                columns.append(self._columns[word])
                values.append(1 + np.log(count))
        shape = (len(texts), len(self._columns))
        having = np.bincount(columns, minlength=shape[1])
        self._idf_lucene = np.log(1 + (shape[0] - having + 0.5) / (having + 0.5))
        self._idf = np.log((1 + shape[0]) / (1 + having)) + 1
        weighted = csr_matrix((np.array(values) * self._idf[columns], (rows, columns)), shape=shape)
        lengths = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
        weighted = csr_matrix(weighted.multiply((1 / lengths)[:, None]))
        # Few against many passages: with as many dimensions as texts, nothing would be latent.
        size = min(DIMENSIONS, max(min(shape) // 4, 2), min(shape) - 1)
        if size < 1:
            self._axes: Any = np.eye(shape[1])
        else:
            self._axes = svds(weighted, k=size, random_state=0)[2].T
        points = weighted @ self._axes
        norms = np.linalg.norm(points, axis=1, keepdims=True)
        self._points = points / np.where(norms == 0, 1, norms)


KEEP = 0.6
"""A hit stays if it scores at least this share of the best hit of its side."""
RANK_OFFSET = 60
"""Reciprocal rank fusion: one place at rank r adds 1 / (60 + r)."""


@dataclass(frozen=True, slots=True)
class Results:
    """What a search found."""

    chunks: list[dict[str, Any]]
    """In rank order; a passage that both sides found stands twice, with one ``chunk_id``."""
    total_before_filter: int
    """Hits of both sides, within their limits, before the weak ones were left out."""


def search(index: Index, field: Field, package: str, limits: Mapping[str, int]) -> Results:
    """Find the passages of one document that may answer a field."""
    question = field.search.format(package=package)
    hits = {
        "bm25": index.bm25(question, package)[: limits["bm25"]],
        "knn": index.knn(question, package)[: limits["knn"]],
    }
    kept = {method: _strong(passages, field) for method, passages in hits.items()}
    standing: dict[str, float] = defaultdict(float)
    for passages in kept.values():
        for rank, (passage, _) in enumerate(passages):
            standing[passage.chunk_id] += 1 / (RANK_OFFSET + rank)
    merged = [(method, *hit) for method, passages in kept.items() for hit in passages]
    merged.sort(key=lambda entry: (-standing[entry[1].chunk_id], entry[1].chunk_id))
    chunks = [
        {
            "content": passage.text,
            "doc_uri": passage.doc_uri,
            "chunk_id": passage.chunk_id,
            "page": passage.page,
            "score": round(score, 3),
            "retrieval_method": method,
        }
        for method, passage, score in merged
    ]
    return Results(chunks, sum(len(passages) for passages in hits.values()))


def _strong(hits: list[Hit], field: Field) -> list[Hit]:
    least = KEEP * hits[0][1] if hits else 0.0
    return [hit for hit in hits if hit[1] >= least and field.holds.search(hit[0].text)]
