"""Fitting `groundedness_risk`: the background table, and sentences stacked into answers.

Nothing is fitted to a generator's style: the direction of every support feature is fixed, and the
answer-level model sees no length, list or phrase. All seeds are fixed; one thread is enough.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from risk_data import Row, unmarked
from risk_stumps import stumps
from risk_swaps import SHARES, swapped
from sklearn.model_selection import GroupKFold

from llmeval_sdk.heuristics.risk import _features, _text, groundedness
from llmeval_sdk.heuristics.risk._features import Sentence
from llmeval_sdk.heuristics.risk._words import Additive


_PIECE = 600


def background(texts: Iterable[str], answers: Sequence[str]) -> dict[str, float]:
    """Inverse document frequency of stems: the commoner of text pieces and of answers decides.

    Answers are counted beside contexts because the words that models fill answers with ("overall",
    "provided") are rare in documents and say nothing about support.
    """
    pieces: Counter[str] = Counter()
    count = 0
    for whole in dict.fromkeys(texts):
        for start in range(0, len(whole), _PIECE):
            pieces.update(
                set(_text.stems(_text.tokens(whole[start : start + _PIECE]), english=True))
            )
            count += 1
    spoken: Counter[str] = Counter()
    for answer in answers:
        spoken.update(set(_text.stems(_text.tokens(answer), english=True)))
    table = {}
    for stem in sorted(pieces.keys() | spoken.keys()):
        share = max(pieces[stem] / count, spoken[stem] / max(1, len(answers)))
        if pieces[stem] + spoken[stem] > 1 and stem[0].isalpha() and len(stem) < 25:
            table[stem] = round(-math.log(share), 1)
    return table


def measured(rows: Sequence[Row], table: dict[str, float]) -> list[list[Sentence]]:
    """The sentences of every answer, measured with a background table of one's own."""
    found = []
    for row in rows:
        side = groundedness.compare(row.question, (row.context,), row.answer, table=table)
        assert side is not None, row
        found.append(groundedness.sentences(row.answer, side))
    return found


def training(rows: Sequence[Row], shares: Mapping[str, float] = SHARES) -> list[Row]:
    """Prepare rows for fitting: half of them without marks, some copies with a swapped detail."""
    prepared = half_unmarked(rows)
    return prepared + swapped(prepared, shares)


def half_unmarked(rows: Sequence[Row]) -> list[Row]:
    """Take the passage marks out of every second source, so that the model does not lean on them."""
    odd = {group: i % 2 for i, group in enumerate(sorted({row.group for row in rows}))}
    return [
        Row(
            r.group,
            r.model,
            r.question,
            unmarked(r.context) if odd[r.group] else r.context,
            r.answer,
            r.label,
            r.spans,
        )
        for r in rows
    ]


def span_labels(row: Row, found: Sequence[Sentence]) -> list[int]:
    """1 where a labelled span covers more than 8 characters or 30 % of a sentence."""
    return [
        int(
            sum(max(0, min(s.end, last) - max(s.start, first)) for first, last in row.spans)
            > min(8, 0.3 * (s.end - s.start))
        )
        for s in found
    ]


def sentence_model(found: Sequence[Sequence[Sentence]], rows: Sequence[Row]) -> Additive:
    vectors = [s.features for group in found for s in group]
    labels = [
        label for row, group in zip(rows, found, strict=True) for label in span_labels(row, group)
    ]
    return stumps(
        _features.SENTENCE_FEATURES, vectors, labels, rounds=600, rate=0.1, least=60, l2=5
    )


def response_vectors(
    found: Sequence[Sequence[Sentence]], model: Additive
) -> list[dict[str, float]]:
    return [
        _features.response_features(group, [model.risk(s.features) for s in group]) if group else {}
        for group in found
    ]


def stack(found: Sequence[Sequence[Sentence]], rows: Sequence[Row]) -> tuple[Additive, Additive]:
    """Fit the sentence model, and the response model on risks of sentences it was not fitted on."""
    vectors: list[dict[str, float]] = [{}] * len(rows)
    for fit, rest in GroupKFold(4).split(rows, groups=[row.group for row in rows]):
        part = sentence_model([found[i] for i in fit], [rows[i] for i in fit])
        for i, vector in zip(rest, response_vectors([found[i] for i in rest], part), strict=True):
            vectors[i] = vector
    kept = [i for i, vector in enumerate(vectors) if vector]
    matrix = [vectors[i] for i in kept]
    whole = stumps(
        _features.RESPONSE_FEATURES,
        matrix,
        [rows[i].label for i in kept],
        rounds=120,
        rate=0.08,
        least=150,
        l2=10,
    )
    return sentence_model(found, rows), whole


def span_threshold(found: Sequence[Sequence[Sentence]], rows: Sequence[Row]) -> float:
    """The sentence risk from which reported spans have the best F1, on sources not fitted on."""
    pairs = []
    for fit, rest in GroupKFold(4).split(rows, groups=[row.group for row in rows]):
        model = sentence_model([found[i] for i in fit], [rows[i] for i in fit])
        for i in rest:
            pairs += zip(
                span_labels(rows[i], found[i]),
                (model.risk(s.features) for s in found[i]),
                strict=True,
            )
    labels, scores = map(np.array, zip(*pairs, strict=True))

    def f1(least: float) -> float:
        flagged = scores >= least
        return 2 * float((labels * flagged).sum()) / float(labels.sum() + flagged.sum())

    return max((step / 100 for step in range(5, 80)), key=f1)


def risks(found: Sequence[Sequence[Sentence]], models: tuple[Additive, Additive]) -> list[float]:
    """The risk of each answer, as the shipped code computes it."""
    return [groundedness.score(group, models)[0] for group in found]
