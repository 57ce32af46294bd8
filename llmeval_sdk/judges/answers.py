"""What the answers of a decision model are as Evaluations: values, probabilities, confidence.

Each reader takes the ``odds`` by which a calibration multiplies those of a good outcome, 1 where
there is none. Value, probability and confidence are then all of the calibrated answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from llmeval_sdk import _values
from llmeval_sdk.judges._chunks import combine
from llmeval_sdk.model import Answer, Evaluation, Question


def yes_no(question: Question, answer: Answer, threshold: float, odds: float = 1.0) -> Evaluation:
    """Return ``yes`` where its probability reaches the threshold, else ``no``."""
    if answer.error is not None:
        return Evaluation(question.name, error=answer.error)
    chances = _tilted(answer.probabilities, ("yes",), odds)
    yes = chances["yes"]
    return Evaluation(
        question.name,
        "yes" if yes >= threshold else "no",
        probability=yes,
        metadata={"confidence": confidence(question, chances)},
    )


def category(question: Question, answer: Answer, threshold: float, odds: float = 1.0) -> Evaluation:
    """Return the likeliest category.

    Its probability of being good is that of all good categories together, where it is known of
    each category whether it is good.
    """
    if answer.error is not None:
        return Evaluation(question.name, error=answer.error)
    goodness = {option.value: _values.goodness("", option.value) for option in question.options}
    good = [word for word, how_good in goodness.items() if how_good and how_good > 0.5]
    return _categorised(question, answer, None if unrated(goodness) else good, odds)


def _categorised(
    question: Question, answer: Answer, good: Collection[str] | None, odds: float
) -> Evaluation:
    chances: Mapping[str, float] = {
        option.value: answer.probabilities[option.value] for option in question.options
    }
    if good is not None:
        chances = _tilted(chances, good, odds)
    return Evaluation(
        question.name,
        max(chances, key=chances.__getitem__),
        probability=None if good is None else min(sum(chances[word] for word in good), 1.0),
        metadata={"probabilities": chances, "confidence": confidence(question, chances)},
    )


def unrated(words: Iterable[str]) -> list[str]:
    """Return the categories of which it is not known whether they are good."""
    return [word for word in words if _values.goodness("", word) is None]


def no_problem(
    question: Question, answer: Answer, threshold: float, odds: float = 1.0
) -> Evaluation:
    """Return ``yes`` where that there is no problem reaches the threshold, else the likeliest."""
    if answer.error is not None:
        return Evaluation(question.name, error=answer.error)
    categorised = _categorised(question, answer, ("none",), odds)
    chances = categorised.metadata["probabilities"]
    is_good = chances["none"] >= threshold
    problem = max((word for word in chances if word != "none"), key=chances.__getitem__)
    return replace(
        categorised,
        value="yes" if is_good else "no",
        metadata={**categorised.metadata, **({} if is_good else {"problem": problem})},
    )


def level_reader(
    heights: Mapping[str, float],
) -> Callable[[Question, Answer, float, float], Evaluation]:
    """Make the reader of a score, of what each of its levels stands for.

    The value is the mean of the levels, weighted by their probabilities. The probability of being
    good is that of the levels which reach the threshold.
    """

    def read(question: Question, answer: Answer, threshold: float, odds: float = 1.0) -> Evaluation:
        if answer.error is not None:
            return Evaluation(question.name, error=answer.error)
        good = [level for level, height in heights.items() if height >= threshold]
        chances = _tilted({level: answer.probabilities[level] for level in heights}, good, odds)
        return Evaluation(
            question.name,
            min(sum(chance * heights[level] for level, chance in chances.items()), 1.0),
            probability=min(sum(chances[level] for level in good), 1.0),
            metadata={"probabilities": chances, "confidence": confidence(question, chances)},
        )

    return read


def all_of(
    questions: Sequence[Question],
    answers: Mapping[str, Answer],
    threshold: float,
    odds: float = 1.0,
) -> Evaluation:
    """Return ``yes`` where all facts are stated.

    The probability is that of the fact that is least likely to be stated: that all of them are
    cannot be likelier. One fact without an answer leaves the whole without one.
    """
    rated = [yes_no(question, answers[question.name], threshold, odds) for question in questions]
    failed = next((one for one in rated if one.error is not None), None)
    if failed is not None:
        return failed
    least = min(rated, key=_probability)
    return replace(
        least,
        metadata={
            **least.metadata,
            "expected_facts": len(rated),
            "unstated_facts": [n for n, one in enumerate(rated, 1) if one.value == "no"],
            "probabilities": [one.probability for one in rated],
        },
    )


def chunks(rated: Sequence[Evaluation]) -> Evaluation:
    """Return one Evaluation of one per chunk, in rank order, as `combine` does.

    The probability is the mean of the chunks' probabilities: the chance that a chunk taken at
    random is good, which is the precision to be expected.
    """
    combined = combine("", rated)
    known = [one.probability for one in rated if one.probability is not None]
    return replace(
        combined,
        probability=sum(known) / len(known) if known else None,
        metadata={
            **combined.metadata,
            "probabilities": [one.probability for one in rated],
            "confidences": [one.metadata.get("confidence") for one in rated],
        },
    )


LEAST_CHANCE = 1e-4
"""What counts as no chance where odds are multiplied: as in `llmeval_sdk.estimates.calibration`,
nobody is so certain that a calibration could not move it."""


def _tilted(
    chances: Mapping[str, float], good: Collection[str], odds: float
) -> Mapping[str, float]:
    """Multiply the odds of the good options together; among themselves, nothing changes."""
    if odds == 1.0:
        return chances
    weights = {
        word: max(chance, LEAST_CHANCE) * (odds if word in good else 1.0)
        for word, chance in chances.items()
    }
    total = sum(weights.values())
    return {word: weight / total for word, weight in weights.items()}


def confidence(question: Question, probabilities: Mapping[str, float]) -> float:
    """Return how concentrated an answer is, from 0 for evenly spread to 1 for certain.

    It is computed here, by one definition for all models, since theirs differ. It is not the
    probability of being right.

    - of yes and no: how far the two are apart;
    - of a choice: how far the likeliest option stands above an even spread;
    - of a score: how close the others are to the likeliest level, beside an even spread.
    """
    if question.type == "yes_no":
        return abs(2 * probabilities["yes"] - 1)
    chances = [probabilities[option.value] for option in question.options]
    count, top = len(chances), max(chances)
    if question.type == "choice":
        return max(0.0, (top - 1 / count) / (1 - 1 / count))
    mode, middle = chances.index(top), (count - 1) / 2
    spread = sum(chance * abs(place - mode) for place, chance in enumerate(chances))
    even = sum(abs(place - middle) for place in range(count)) / count
    return max(0.0, 1 - spread / even)


def _probability(evaluation: Evaluation) -> float:
    return evaluation.probability or 0.0
