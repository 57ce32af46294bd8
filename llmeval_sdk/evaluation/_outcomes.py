"""Evaluations made of a decision model's answers, and the form in which answers are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.evaluation._running import failed
from llmeval_sdk.evaluation.calibrations import Calibrations
from llmeval_sdk.model import Answer, Evaluation
from llmeval_sdk.protocols import Judge


def decided(judge: Judge, evaluation: Evaluation) -> Evaluation:
    """Return an evaluation as the decision on a judge's question."""
    return replace(
        evaluation,
        name=judge.name,
        evaluator_kind="decision",
        evaluator_version=judge.version,
    )


def failure_of(judge: Judge, error: BaseException) -> Evaluation:
    """Return the evaluation of a judge whose question or answer raised an exception."""
    kind = error.type if isinstance(error, JudgeError) else type(error).__name__
    return failed(judge, kind, str(error))


def calibrated(
    judge: Judge,
    evaluation: Evaluation,
    threshold: float,
    model: str,
    calibrations: Calibrations | None,
) -> Evaluation:
    """Put the calibrated probability in place of the model's, which the metadata keeps."""
    raw = evaluation.probability
    if raw is None or calibrations is None:
        return evaluation
    calibration = calibrations.of(judge.name, judge.version, model)
    if calibration is None:
        return evaluation
    probability = calibration(raw)
    value = evaluation.value
    if value in ("yes", "no") and type(value) is str:
        value = "yes" if probability >= threshold else "no"
    return replace(
        evaluation,
        value=value,
        probability=probability,
        metadata={**evaluation.metadata, "raw_probability": raw},
    )


def packed(judge: Judge, answers: Mapping[str, Answer], model: str) -> Evaluation:
    """Return what a cache of verdicts keeps of the answers to a judge's questions."""
    chances = {name: dict(answer.probabilities) for name, answer in answers.items()}
    return decided(judge, Evaluation(judge.name, metadata={"answers": chances, "model": model}))


def unpacked(kept: Evaluation) -> dict[str, Answer]:
    """Return the answers that `packed` kept."""
    return {name: Answer(chances) for name, chances in kept.metadata["answers"].items()}
