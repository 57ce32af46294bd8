"""Evaluations made of a decision model's answers, and the form in which answers are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, log
from typing import Any

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.estimates.calibration import Calibration
from llmeval_sdk.evaluation._running import failed
from llmeval_sdk.judges.answers import LEAST_CHANCE
from llmeval_sdk.judges.typed import TypedForm
from llmeval_sdk.model import Answer, Evaluation
from llmeval_sdk.protocols import Judge


def decided(judge: Judge, evaluation: Evaluation, **about: Any) -> Evaluation:
    """Return an evaluation as the decision on a judge's question, with further fields."""
    return replace(
        evaluation,
        name=judge.name,
        evaluator_kind="decision",
        evaluator_version=judge.version,
        **about,
    )


def failure_of(judge: Judge, error: BaseException) -> Evaluation:
    """Return the evaluation of a judge whose question or answer raised an exception."""
    kind = error.type if isinstance(error, JudgeError) else type(error).__name__
    return failed(judge, kind, str(error))


def read(
    form: TypedForm,
    answers: Mapping[str, Answer],
    threshold: float,
    calibration: Calibration | None,
) -> Evaluation:
    """Read the answers to a judge's questions as its calibration makes them.

    The odds of each answer are multiplied alike, so that the judge's probability becomes the
    calibrated one. Its value, its confidence and what it says of each chunk or fact then agree
    with it. The metadata keeps the model's own probability.
    """
    evaluation = form.read(answers, threshold)
    raw = evaluation.probability
    if raw is None or calibration is None:
        return evaluation
    target, shift, reached = calibration(raw), 0.0, raw
    for _ in range(_MOST_STEPS):  # one is enough, but where the judge sums up several answers
        if abs(reached - target) < _CLOSE_ENOUGH:
            break
        shift += _logit(target) - _logit(reached)
        evaluation = form.read(answers, threshold, exp(min(max(shift, -_FARTHEST), _FARTHEST)))
        reached, before = evaluation.probability or 0.0, reached
        if reached == before:
            break  # all that it may say counts as good, or as bad
    return replace(evaluation, metadata={**evaluation.metadata, "raw_probability": raw})


_MOST_STEPS, _CLOSE_ENOUGH, _FARTHEST = 30, 1e-7, 50.0


def _logit(probability: float) -> float:
    clipped = min(max(probability, LEAST_CHANCE), 1 - LEAST_CHANCE)
    return log(clipped / (1 - clipped))


def packed(
    judge: Judge, answers: Mapping[str, Answer], model: str, cut: Sequence[str]
) -> Evaluation:
    """Return what a cache of verdicts keeps of the answers to a judge's questions."""
    chances = {name: dict(answer.probabilities) for name, answer in answers.items()}
    notes = {"cut": list(cut)} if cut else {}
    return Evaluation(
        judge.name,
        metadata={"answers": chances, "model": model, **notes},
        evaluator_kind="decision",
        evaluator_version=judge.version,
    )


def unpacked(kept: Evaluation) -> dict[str, Answer]:
    """Return the answers that `packed` kept."""
    return {name: Answer(chances) for name, chances in kept.metadata["answers"].items()}
