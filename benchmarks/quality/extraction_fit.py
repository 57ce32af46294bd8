"""Measuring extraction records, and fitting what each feature weighs.

A plain fit does not carry over from one kind of document to the next: what separates right from
wrong on receipts is not what does in READMEs. So the weights start from `PRIOR`, what each feature
is worth by what it means, and the labelled data only moves them as far as `PULL` lets it. No weight
may turn negative: every feature is built so that high is bad.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from extraction_data import Case
from scipy.optimize import minimize

from benchmarks.quality.structured_answers import Answer
from llmeval_sdk.heuristics.extraction.risk import ExtractionRisk, RiskModel, features
from llmeval_sdk.model.structure import fields_of
from llmeval_sdk.text.extraction import read


PRIOR = {
    "against": 2.0, "split": 1.0, "lone": 0.3, "few_sources": 0.5, "outvoted": 1.0, "unsure": 2.0,
    "unsure_self": 1.5, "rival_nearer": 2.0, "no_cue": 2.0, "outnumbered": 1.0, "opposed": 0.5,
    "crowded": 0.5, "crowded_line": 0.5, "wrong_format": 2.0, "wrong_kind": 1.0, "free_form": 2.0,
    "cut_off": 0.5, "has_label": 1.0, "long": 1.0, "common": 1.0, "unrelated": 1.0, "absent": 2.0,
    "uncited": 1.0, "low_rank": 0.8, "one_side": 0.5, "low_score": 0.7, "qualified": 0.3,
    "no_own_label": 1.5, "other_label": 2.0, "rival_labelled": 2.0, "other_document": 3.0,
    "does_not_add_up": 1.0, "exceeded": 2.5, "no_sum": 1.0, "is_label": 4.0, "no_legal_form": 1.0,
    "far_down": 2.5, "no_address": 3.5, "shared": 1.5, "shared_unlabelled": 2.0, "off_row": 2.5,
    "absent_exact": 2.0, "inexact": 2.0, "other_document_exact": 2.0,
    "foreign_line": 2.5, "incomplete": 2.0, "overlong": 2.0, "other_section": 1.0, "foreign_section": 0.5,
}  # fmt: skip
NAMES = tuple(PRIOR)
PULL = 0.005
"""Strength of the pull towards the prior for weights that other sources are scored with."""
PULL_WITHIN = 0.002
"""The same for weights fitted on an app's own labels."""


@dataclass(frozen=True)
class Measured:
    """The answered cases of a source, with their features."""

    cases: Sequence[Case]
    matrix: np.ndarray
    labels: np.ndarray

    @property
    def groups(self) -> list[str]:
        return [case.group for case in self.cases]

    def only(self, keep: np.ndarray) -> Measured:
        picked = np.flatnonzero(keep)
        return Measured([self.cases[i] for i in picked], self.matrix[picked], self.labels[picked])


def measure(cases: Sequence[Case]) -> Measured:
    """Measure the values that apps answered with."""
    answered, rows = [], []
    for case in cases:
        reading = next(iter(read(case.record)), None) if case.answered else None
        if reading is not None:
            answered.append(case)
            rows.append(features(case.record, reading))
    matrix = np.array([[row.get(name, 0.0) for name in NAMES] for row in rows])
    return Measured(answered, matrix, np.array([case.label for case in answered]))


@dataclass(frozen=True)
class Recorder(ExtractionRisk):
    """Keeps the features of every field that is scored: of a list, those of its riskiest item."""

    vectors: list[Mapping[str, float]] = field(default_factory=list)

    def _worst(self, record, values, sources, together):
        worst = super()._worst(record, values, sources, together)
        elsewhere = worst.elsewhere is not None
        self.vectors.append(features(record, worst.reading, elsewhere=elsewhere, together=together))
        return worst


def measure_answers(answers: Iterable[Answer]) -> Measured:
    """Measure the fields of whole answers as the score reads them, each a value of its own."""
    rows, labels, cases = [], [], []
    for answer in answers:
        recorder, record = Recorder(), answer.record()
        entries = (recorder.evaluate(record).metadata or {}).get("fields", ())
        checked = {one["path"] for one in entries if one["checked"] and one["value"]}
        paths = [one.path for one in fields_of(record).fields if one.path in checked]
        given = {one.path: one for one in answer.given}
        for path, vector in zip(paths, recorder.vectors, strict=True):
            one = given[path]
            rows.append([vector.get(name, 0.0) for name in NAMES])
            labels.append(int(one.is_wrong))
            single = answer.single(one)
            cases.append(Case("documents", answer.document.file, "reader", single, one.kind))
    return Measured(cases, np.array(rows), np.array(labels))


def fit(sources: Sequence[Measured], pull: float = PULL) -> RiskModel:
    """Fit the weights on sources that count the same, with as many wrong values as right ones."""
    matrix = np.vstack([source.matrix for source in sources])
    labels = np.concatenate([source.labels for source in sources])
    share = np.concatenate(
        [np.where(s.labels == 1, 0.5 / s.labels.sum(), 0.5 / (1 - s.labels).sum()) for s in sources]
    )
    share /= share.sum()
    prior = np.array([PRIOR[name] for name in NAMES])

    def loss(point):
        logits = matrix @ point[1:] + point[0]
        cost = share @ np.logaddexp(0, np.where(labels == 1, -logits, logits))
        slope = share * (1 / (1 + np.exp(-logits)) - labels)
        away = point[1:] - prior
        return cost + pull * away @ away, np.concatenate(
            [[slope.sum()], matrix.T @ slope + 2 * pull * away]
        )

    bounds = [(None, None)] + [(0, None)] * len(NAMES)
    fitted = minimize(loss, np.concatenate([[0.0], prior]), jac=True, bounds=bounds)
    weights = dict(zip(NAMES, map(float, fitted.x[1:]), strict=True))
    means = dict(zip(NAMES, map(float, share @ matrix), strict=True))
    return RiskModel(float(fitted.x[0]), weights, means)


def risks(source: Measured, weights: RiskModel) -> np.ndarray:
    return source.matrix @ np.array([weights.weights[n] for n in NAMES]) + weights.bias
