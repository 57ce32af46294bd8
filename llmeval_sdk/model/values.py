"""What the value of an evaluation is as a number, and whether it is good or bad.

This is the only place that answers either question: reports, pages, conditions, exports and the
comparison with human labels all call it, so that they agree.

A value is good, bad, something between, or neutral. Neutral is what nobody should be warned about:
a score that does not apply, a check that had nothing to look at (``skipped``), an answer that was
not attempted (``abstained``), a count or a duration, a score that would be nearly the same whatever
had happened (its metadata says ``near_constant``), and a category nobody told us the meaning of.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Literal


if TYPE_CHECKING:
    from llmeval_sdk.model import Evaluation


Standing = Literal["good", "fair", "bad", "neutral"]

GOOD_ABOVE = 0.7
BAD_BELOW = 0.4
"""Where a score from 0 to 1 turns good or bad: the bands of ``context_relevance``."""
LOOKS = 5
"""How many looks at right values an unseen wrong one is worth. So a chance of an error is bad above
1 in 5, which is where looking begins to pay, and fair above half of that."""
DOUBTFUL_ABOVE = 1 / LOOKS
"""The chance of an error above which a value is worth a look."""
EXTRACTION_RISK = "extraction_risk"
"""The evaluator whose chances say which fields of an answer are doubtful."""
ACCEPTANCE = "acceptance"
"""The evaluation that says whether values were accepted unseen: ``accepted``, ``refused`` or
``audit``, which is a value that would have been accepted and was refused at random."""
THRESHOLDS = "thresholds"
"""The key of its metadata for the thresholds that were used, by the times they were saved at."""
_CHANCES = frozenset((EXTRACTION_RISK,))
"""Scores that say how likely an error is, on the scale of chances."""

_YES = ("yes", "y", "true", "pass", "passed", "good", "correct", "right", "ok", "up")
_NO = (
    "no", "n", "false", "fail", "failed", "bad", "incorrect", "wrong", "invented", "missed", "down",
)  # fmt: skip
_RATINGS = {**dict.fromkeys(_YES, 1.0), **dict.fromkeys(_NO, 0.0)}
"""Words that rate: each counts as a number in a mean."""
_CATEGORIES = {
    "unanimous": 1.0, "majority": 0.6, "mixed": 0.4, "conflicting": 0.0,
    "acceptable": 0.5, "investigate": 0.0,
    "high_threshold_filtering": 0.4, "hit_retrieval_limit": 0.0,
}  # fmt: skip
"""How good the categories of built-in evaluators are, 0 to 1. This chooses their colour; they do
not count as numbers in a mean."""
_GOODNESS = {**_RATINGS, **_CATEGORIES}
ABSTENTION = "abstention_risk"
"""The score of a record that has no answer: no other score of such a record is good or bad."""
ABSTAINED = "abstained"
"""The label of a score about an answer that was not attempted."""
NOT_CHECKED = "not_checked"
"""The label of an evaluation without a value, because there was nothing to compare; its explanation
says why. It is delivered, unlike an evaluation that does not apply."""
PENDING = "pending"
"""The label in ``span.evaluations`` of a score that the worker has yet to make."""
NEUTRAL = frozenset({"", ABSTAINED, "skipped", "n/a", "not applicable", "not_applicable"})
_MAX_LENGTH = max(map(len, (*_GOODNESS, *NEUTRAL))) + 8
NEAR_CONSTANT = "near_constant"
"""Key of an evaluation's metadata that says: the value is nearly the same whatever happened."""
BETTER = "better"
"""Key of a stored evaluation's metadata: which values of its evaluator are better."""
FIELD = "field"
"""Key of a label's metadata: the path of the one field of an answer that the label is about."""
SOURCE, USER, REVIEW = "source", "user", "review"
"""Key of a label's metadata that says who gave it, and its values: a user of the app, or somebody
who checked the answer."""
_better: dict[str, str] = {}
"""By evaluator, where it declares so itself; the names of the others decide."""
_MEASURES = ("_count", "_seconds")
_HIGH_IS_BAD = (
    "_risk", "_seconds", "_token_count", "no_answer", "repetition", "unanswered_questions",
    "run_faults", "tool_call_errors", "duplicate_tool_calls", "tool_call_loop", "tool_call_schema",
    "ungrounded_arguments", "ignored_errors", "unsupported_action_claims", "unmet_requests",
    "injected_actions",
)  # fmt: skip
_UNRATED = (ABSTENTION, "ungrounded_arguments")
"""Who did not answer may be right, and in one good run of four an argument comes from nowhere."""


def number(value: object) -> float | None:
    """Return a value as a number: a finite score as it is, pass and yes as 1, fail and no as 0.

    ``None`` is returned for what is no number: any other category, a value that does not apply, an
    infinite one.
    """
    if isinstance(value, str):
        return _RATINGS.get(_folded(value))
    if isinstance(value, (bytes, bytearray)):  # which float() would read as text
        return None
    try:
        found = float(value)  # type: ignore[arg-type]  # whatever has a float
    except (TypeError, ValueError, OverflowError):
        return None
    return found if isfinite(found) else None


def word(passed: object) -> str:
    """Return what people read for a bool: ``pass`` or ``fail``."""
    return "pass" if passed else "fail"


def is_neutral(value: object) -> bool:
    """Say whether a value or label is one of those that say nothing good or bad."""
    return value is None or (isinstance(value, str) and _folded(value) in NEUTRAL)


def is_measure(name: str) -> bool:
    """Say by its name whether an evaluator counts or times something, rather than rating it."""
    return name.endswith(_MEASURES)


def is_unrated(name: str) -> bool:
    """Say whether an evaluator's scores are never good or bad, though they can be sorted."""
    return name in _UNRATED


def declare(name: str, better: str | None) -> None:
    """Remember which values of an evaluator are better: the ``lower`` or the ``higher`` ones.

    ``None`` forgets it, so that the evaluator's name decides again. A declaration holds for the
    whole process, because a name stands for one evaluator. Raises `ConfigurationError` for any
    other word.
    """
    if better is None:
        _better.pop(name, None)
        return
    if better not in ("lower", "higher"):
        from llmeval_sdk.errors import ConfigurationError

        raise ConfigurationError(f"{name}: better is 'lower' or 'higher', not {better!r:.100}")
    _better[name] = better


def learn(name: str, better: object) -> bool:
    """Take over what an evaluator once declared, from stored data; return whether it is a word.

    Anything but ``lower`` and ``higher`` is ignored: the data may come from a stranger.
    """
    if better in ("lower", "higher"):
        _better[name] = str(better)
        return True
    return False


def declared(name: str) -> str | None:
    """Return which values of an evaluator are better, ``lower`` or ``higher``, if it says so."""
    return _better.get(name)


def high_is_bad(name: str) -> bool:
    """Say whether the highest numbers of an evaluator are the worst: the one answer to it.

    An evaluator says so itself by its ``better`` (see `declare`), which the store and saved reports
    keep beside its results (see `learn`). Otherwise its name decides.
    """
    return _better[name] == "lower" if name in _better else name.endswith(_HIGH_IS_BAD)


def is_of_user(metadata: Mapping[str, object]) -> bool:
    """Say whether feedback was given by a user of the app, by its metadata.

    It is then no label of an evaluator, whatever its name: users may choose that as well.
    """
    return metadata.get(SOURCE) == USER


def is_near_constant(metadata: Mapping[str, object]) -> bool:
    """Say whether an evaluation's metadata takes the meaning from its score."""
    return metadata.get(NEAR_CONSTANT) is True


def goodness_of(evaluation: Evaluation) -> float | None:
    """Return how good an evaluation is, by all that it says; see `goodness`."""
    if is_near_constant(evaluation.metadata):
        return None
    return goodness(evaluation.name, evaluation.value, evaluation.label)


def standing_of(evaluation: Evaluation) -> Standing:
    """Return whether an evaluation without an error is good, fair, bad or neutral."""
    if is_near_constant(evaluation.metadata):
        return "neutral"
    return standing(evaluation.name, evaluation.value, evaluation.label)


def goodness(name: str, value: object, label: str | None = None) -> float | None:
    """Return how good an outcome is, from 0 for bad to 1 for good.

    Args:
        name: the evaluator; one that declares it, or ends in ``_risk``, is best at 0 or a no.
        value: a score, a bool, a category or ``None``. More than 1 is bad where high is bad.
        label: the evaluation's label: a neutral one, such as ``abstained``, makes a score neutral.

    Returns:
        ``None`` for what is neutral, and for a number outside 0..1, which has no good end.
    """
    inverted = _better.get(name) == "lower"
    if isinstance(value, str):
        good = _GOODNESS.get(_folded(value))
    elif label and is_neutral(label):
        return None
    elif isinstance(value, bool):
        good = float(value)
    else:
        good, inverted = number(value), high_is_bad(name)
        if good is None or good < 0 or is_measure(name) or is_unrated(name):
            return None
    if good is None or (good > 1 and not inverted):
        return None
    return max(0.0, 1 - good) if inverted else good


def standing(name: str, value: object, label: str | None = None) -> Standing:
    """Return whether an outcome is good, fair, bad or neutral; see `goodness`.

    A score that is a chance of an error is bad where a look at the value is worth it (`LOOKS`).
    """
    if name in _CHANCES and not (label and is_neutral(label)):
        by_chance = _standing_of_chance(value)
        if by_chance is not None:
            return by_chance
    return _standing(goodness(name, value, label))


def _standing_of_chance(value: object) -> Standing | None:
    """Say how a chance of an error stands: bad where looking costs less than what it may save."""
    chance = number(value)
    if chance is None or isinstance(value, (bool, str)) or not 0 <= chance <= 1:
        return None
    worth = chance * LOOKS
    return "bad" if worth > 1 else "fair" if worth > 1 / 2 else "good"


def _standing(good: float | None) -> Standing:
    if good is None:
        return "neutral"
    return "good" if good > GOOD_ABOVE else "bad" if good < BAD_BELOW else "fair"


def _folded(text: str) -> str:
    """Return a word as the tables have it; a text too long to be in them is cut."""
    return text[:_MAX_LENGTH].strip().casefold()
