"""A small hybrid index over the SQuAD paragraphs: top 5 by BM25 and top 5 by latent semantics."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import bm25s
import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from llmeval_sdk.model import Chunk, Record


TOP = 5


@dataclass(frozen=True, slots=True)
class Asked:
    """One question and what was retrieved for it."""

    group: str
    record: Record
    wanted: str | None
    """The chunk that answers it; ``None`` if none does."""

    @property
    def label(self) -> int:
        """1 = what it wants is not among the chunks."""
        return int(all(c.chunk_id != self.wanted for c in self.record.retrieved_context or ()))


def asked(folder: Path, *, kept: float, seed: int, unanswerable: bool = False) -> list[Asked]:
    """Retrieve for every question from an index that holds a share ``kept`` of the paragraphs.

    Args:
        folder: Where ``squad2_half.json`` is.
        kept: Share of the paragraphs that stay in the index.
        seed: Which ones.
        unanswerable: Ask the adversarial questions too; they count as insufficient.
    """
    articles = json.loads((folder / "squad2_half.json").read_text(encoding="utf-8"))
    dice = np.random.default_rng(seed)
    paragraphs = [p for p in articles["paras"] if kept >= 1 or dice.random() < kept]
    questions = [q for q in articles["qs"] if unanswerable or not q["imp"]]
    texts = [p["text"] for p in paragraphs]
    lexical = bm25s.BM25()
    lexical.index(bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False)
    found, scores = lexical.retrieve(
        bm25s.tokenize([q["q"] for q in questions], stopwords="en", show_progress=False),
        k=TOP, show_progress=False,
    )  # fmt: skip
    words = TfidfVectorizer(sublinear_tf=True, stop_words="english")
    matrix = words.fit_transform(texts)
    reduce = TruncatedSVD(128, random_state=0).fit(matrix)
    documents = normalize(reduce.transform(matrix))
    near = normalize(reduce.transform(words.transform([q["q"] for q in questions]))) @ documents.T
    rows = []
    for i, question in enumerate(questions):
        dense = np.argsort(-near[i])[:TOP]
        hits = [(int(n), float(s), "bm25") for n, s in zip(found[i], scores[i], strict=True)]
        hits += [(int(n), float(near[i, n]), "knn") for n in dense]
        chunks = tuple(
            Chunk(
                texts[n],
                doc_uri=paragraphs[n]["title"],
                chunk_id=str(paragraphs[n]["pid"]),
                score=s,
                retrieval_method=m,
            )
            for n, s, m in hits
        )
        wanted = None if question["imp"] else str(question["pid"])
        record = Record(request=question["q"], retrieved_context=chunks)
        rows.append(Asked(question["title"], record, wanted))
    return rows
