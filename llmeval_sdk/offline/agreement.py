"""How far a judge or heuristic agrees with people, and how sure the figures are."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmeval_sdk.errors import DataError, missing_extra
from llmeval_sdk.model import values
from llmeval_sdk.statistics import Caught, Reliability, caught_below, reliability, threshold_for
from llmeval_sdk.statistics.detection import wilson
from llmeval_sdk.statistics.labels import doubt_about


MIN_ROWS = 20
"""With fewer rows no interval is given, because resampling so few says little."""

RESAMPLES = 2_000
CONFIDENCE = 0.95

_BITS = {"1": 1.0, "1.0": 1.0, "0": 0.0, "0.0": 0.0}
"""How yes and no are written in label files that have no types."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One record that both a person and an evaluator rated."""

    id: str
    label: str
    """The label of the person: ``yes``, ``no`` or a category; see `side`."""
    rating: str
    """The rating of the evaluator, in the same words."""
    score: float | None = None
    """The number behind the rating, if there is one; a higher number means more ``yes``."""
    text: str = ""
    explanation: str = ""
    chance: float = 1.0
    """The chance of the record to be labelled, above 0 and at most 1."""
    model: str = ""
    """The exact name of the model that answered, where it is known."""
    evaluator_version: str = ""
    """The version of the evaluator that rated, where it is known."""


@dataclass(frozen=True, slots=True)
class AgreementFigure:
    """A figure with its 95 % interval; ``why`` gives the reason if one is missing."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Agreement:
    """What `agreement` found."""

    count: int
    categories: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]
    """Rows are the people's categories, columns the evaluator's, both in the order above."""
    estimates: Mapping[str, AgreementFigure]
    """``accuracy kappa precision recall f1 auroc``."""
    disagreements: tuple[Pair, ...]
    """Worst first: by the distance of the score from the label, where there are scores."""
    doubt: str = ""
    """What is odd about the labels; empty where nothing is."""


def side(value: object, threshold: float = 0.5) -> str:
    """Turn a label or rating into ``yes`` or ``no``, by its word or the threshold, or a category.

    Raises:
        DataError: the value is neither a bool, a number nor a text.
    """
    if isinstance(value, str) and value.strip():
        word = value.strip().casefold()
        rating = _BITS.get(word, values.number(word))
        return word if rating is None else "yes" if rating else "no"
    number = None if isinstance(value, str) else values.number(value)
    if number is not None:
        return "yes" if number >= threshold else "no"
    raise DataError(f"{value!r} is not a label: expected yes or no, a bool, a number or a category")


def agreement(pairs: Sequence[Pair], *, positive: str = "yes", seed: int = 0) -> Agreement:
    """Compare the ratings of an evaluator with the labels of people.

    Cohen's kappa (1960) and accuracy are over all categories; precision, recall, F1 and AUROC (the
    Mann-Whitney statistic) are of ``positive`` against its opposite. The interval of the accuracy
    is Wilson's (1927), which is no point even where twenty records all agree; the others are
    percentiles of a paired bootstrap, which ``seed`` makes repeatable.

    Raises:
        DataError: there are no pairs.
        MissingExtraError: scipy is not installed.
    """
    if not pairs:
        raise DataError("there is nothing to compare: no record has both a label and a rating")
    try:
        import numpy as np
        from scipy.stats import contingency  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise missing_extra("comparing with human labels", "stats", "scipy") from None
    categories = sorted({each for pair in pairs for each in (pair.label, pair.rating)})
    two_sided = set(categories) <= {"yes", "no"}
    categories = ["yes", "no"] if two_sided else categories
    labels = np.array([categories.index(pair.label) for pair in pairs])
    ratings = np.array([categories.index(pair.rating) for pair in pairs])
    every = range(len(categories))
    counts = contingency.crosstab(labels, ratings, levels=(every, every)).count
    estimates = {
        "accuracy": _share(float(_accuracy(labels, ratings)), len(pairs)),
        "kappa": _estimate(_kappa, labels, ratings, seed),
    }
    wanted = categories.index(positive) if two_sided else -1
    for name, figure in {"precision": _precision, "recall": _recall, "f1": _f1}.items():
        estimates[name] = (
            _estimate(figure, labels == wanted, ratings == wanted, seed)
            if two_sided
            else AgreementFigure(why="needs labels and ratings that are yes or no")
        )
    scores = [pair.score for pair in pairs if pair.score is not None]
    if two_sided and len(scores) == len(pairs):
        estimates["auroc"] = _estimate(_auroc, labels == 0, np.array(scores), seed)
    else:
        estimates["auroc"] = AgreementFigure(why="needs yes or no labels and a score for every row")
    if len(set(labels)) == 1:
        only = AgreementFigure(why=f"all labels are {categories[labels[0]]!r}")
        estimates |= {"kappa": only, "auroc": only}
    wrong = sorted((pair for pair in pairs if pair.label != pair.rating), key=_mildness)
    confusion = tuple(tuple(map(int, row)) for row in counts)
    doubt = doubt_about((pair.label, pair.rating) for pair in pairs)
    return Agreement(len(pairs), tuple(categories), confusion, estimates, tuple(wrong), doubt)


# Figures of many samples at once: arrays whose last axis is the rows.


def _accuracy(labels: Any, ratings: Any, axis: int = -1) -> Any:
    return (labels == ratings).mean(axis=axis)


def _kappa(labels: Any, ratings: Any, axis: int = -1) -> Any:
    chance = sum(
        (labels == code).mean(axis=axis) * (ratings == code).mean(axis=axis)
        for code in range(int(labels.max()) + 1)
    )
    return (_accuracy(labels, ratings, axis) - chance) / (1 - chance)


def _precision(labels: Any, ratings: Any, axis: int = -1) -> Any:
    return (labels & ratings).sum(axis=axis) / ratings.sum(axis=axis)


def _recall(labels: Any, ratings: Any, axis: int = -1) -> Any:
    return (labels & ratings).sum(axis=axis) / labels.sum(axis=axis)


def _f1(labels: Any, ratings: Any, axis: int = -1) -> Any:
    both = labels.sum(axis=axis) + ratings.sum(axis=axis)
    return 2 * (labels & ratings).sum(axis=axis) / both


def _auroc(labels: Any, scores: Any, axis: int = -1) -> Any:
    from scipy.stats import rankdata

    high, low = labels.sum(axis=axis), (~labels).sum(axis=axis)
    ranks = (rankdata(scores, axis=axis) * labels).sum(axis=axis)
    return (ranks - high * (high + 1) / 2) / (high * low)


def _mildness(pair: Pair) -> tuple[float, str]:
    distance = 0.0 if pair.score is None else abs(pair.score - (pair.label == "yes"))
    return -distance, pair.id


def _share(share: float, count: int) -> AgreementFigure:
    if count < MIN_ROWS:
        return AgreementFigure(share, why=_TOO_FEW)
    return AgreementFigure(share, *wilson(share, count))


_TOO_FEW = f"no interval from fewer than {MIN_ROWS} rows"


def _estimate(figure: Callable[..., Any], one: Any, other: Any, seed: int) -> AgreementFigure:
    """Compute a figure and its interval, or say why there is none; never NaN."""
    import numpy as np
    from scipy.stats import bootstrap

    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about resamples that are not defined: dealt with below
        value = float(figure(one, other))
        if not np.isfinite(value):
            return AgreementFigure(why="not defined: there are no such labels or ratings")
        if len(one) < MIN_ROWS:
            return AgreementFigure(value, why=_TOO_FEW)
        drawn = bootstrap(
            (one, other),
            figure,
            paired=True,
            vectorized=True,
            method="percentile",
            n_resamples=RESAMPLES,
            batch=200,
            random_state=seed,
        ).bootstrap_distribution
    defined = drawn[np.isfinite(drawn)]
    if len(defined) < CONFIDENCE * len(drawn):
        return AgreementFigure(value, why="no interval: too few rows of one kind")
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(defined, (tail, 1 - tail))
    return AgreementFigure(value, float(low), float(high))


THRESHOLDS = tuple(tenth / 10 for tenth in range(1, 10))
WANTED = 0.9
"""The share of failures that a proposed threshold catches, unless another is asked for."""


@dataclass(frozen=True, slots=True)
class Probabilities:
    """How far probabilities of a good record can be believed.

    Args:
        reliability: Tenths, Brier score and calibration error.
        caught: What each threshold catches of the records that people called bad; empty where they
            called none so.
        proposed: The lowest threshold that catches the wanted share; ``None`` where none does.
        wanted: That share, 0..1.
    """

    reliability: Reliability
    caught: tuple[Caught, ...]
    proposed: Caught | None
    wanted: float


def probabilities(pairs: Sequence[Pair], wanted: float = WANTED) -> Probabilities | None:
    """Look at scores as probabilities of ``yes``; ``None`` where they cannot be any.

    They can be where every record has one in 0..1 and a label that is yes or no.
    """
    if not pairs or not all(_is_probability(pair) for pair in pairs):
        return None
    scores, labels, chances = columns(pairs)
    found = reliability(scores, labels, chances)
    assert found is not None  # there are labels
    caught = (caught_below(scores, labels, threshold, chances) for threshold in THRESHOLDS)
    return Probabilities(
        found,
        tuple(one for one in caught if one is not None),
        threshold_for(scores, labels, wanted, chances),
        wanted,
    )


def columns(pairs: Sequence[Pair]) -> tuple[list[float], list[float], list[float]]:
    """Return probabilities, labels (1 is yes) and chances of records that have a score."""
    scored = [pair for pair in pairs if pair.score is not None]
    return (
        [pair.score or 0.0 for pair in scored],
        [float(pair.label == "yes") for pair in scored],
        [pair.chance for pair in scored],
    )


def _is_probability(pair: Pair) -> bool:
    return pair.score is not None and 0 <= pair.score <= 1 and pair.label in ("yes", "no")
