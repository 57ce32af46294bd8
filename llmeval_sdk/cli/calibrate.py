"""``llmeval judges --calibrate``: correct the probabilities of a judge by people's labels."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

from llmeval_sdk import config
from llmeval_sdk.cli.judges import labelled
from llmeval_sdk.cli.options import open_store
from llmeval_sdk.cli.output import heading, say_json, say_wrapped, table
from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.model import values
from llmeval_sdk.store.fields import labelled_chances
from llmeval_sdk.store.state import state_path
from llmeval_sdk.text.terminal import plural, printable


if TYPE_CHECKING:
    from llmeval_sdk.evaluation.calibrations import FittedCalibration
    from llmeval_sdk.offline.agreement import Pair


def run(args: argparse.Namespace) -> int:
    """Fit, check and write; 1 where the labels give no calibration."""
    from llmeval_sdk.evaluation import calibrations

    if not args.evaluator:
        raise ConfigurationError("name the judge to calibrate: --evaluator NAME")
    if args.fail_under or args.compare:
        raise ConfigurationError(
            "--fail-under and --compare are about agreement: leave --calibrate out"
        )
    path = state_path(args.store or config.from_environment(problems=[]).store)
    known = calibrations.read(path)
    if args.remove:
        if known.pop(args.evaluator, None) is None:
            raise ConfigurationError(f"{path} has no calibration of {args.evaluator}")
        if not args.dry_run:
            calibrations.write(path, known)
        say_wrapped(f"the calibration of {args.evaluator} is removed")
        return 0
    is_risk = args.evaluator == values.EXTRACTION_RISK and not args.file
    pairs = _chances(args) if is_risk else _answered_by_one_model(_pairs(args), args.model)
    fitted, verdict = _fit(pairs)
    accepted = not verdict
    if args.json:
        plain = {"accepted": accepted, "why_not": verdict, **asdict(fitted)}
        say_json(plain)
    else:
        _print(args.evaluator, fitted, pairs, verdict)
    if accepted and not args.dry_run:
        calibrations.write(path, {**known, args.evaluator: fitted})
        if not args.json:
            say_wrapped(f"written to {path}")
    return 0 if accepted else 1


def _chances(args: argparse.Namespace) -> list[Pair]:
    """Collect the labelled values that were drawn at random and scored by the newest version."""
    from llmeval_sdk.offline.agreement import Pair

    if args.where:
        raise ConfigurationError("the chances of fields have one calibration: they take no --where")
    with open_store(args.store) as reader:
        labelled_values = reader.read(labelled_chances)
    newest = max((one.version for one in labelled_values), key=_number, default="")
    pairs = [
        Pair(
            f"{one.span_id} {one.path}",
            "no" if one.good else "yes",
            "",
            one.chance,
            chance=one.drawn,
            evaluator_version=one.version,
        )
        for one in labelled_values
        if one.version == newest
    ]
    if not pairs:
        raise ConfigurationError(
            "no value that was drawn at random from all requests has a label:"
            " llmeval label --for accept --field …"
        )
    return pairs


def _number(version: str) -> int:
    """Return a version as a number to sort by; 0 for one that is no number."""
    return int(version) if version.isdecimal() else 0


def _pairs(args: argparse.Namespace) -> list[Pair]:
    """Collect labelled probabilities; what is no probability or no yes or no is refused."""
    args.feedback = args.feedback or args.evaluator
    args.sample, args.threshold, args.label_threshold, args.risk = None, 0.5, 0.5, False
    pairs = labelled(args, None if args.file else args.evaluator, decisions=True).pairs
    for pair in pairs:
        if pair.score is None or not 0 <= pair.score <= 1:
            raise DataError(
                f"{pair.id}: {args.evaluator} gave no probability. Only the answers of a decision"
                " model can be calibrated (LLMEVAL_DECISION_MODEL)"
            )
        if pair.label not in ("yes", "no"):
            raise DataError(f"{pair.id}: the label {pair.label!r} is neither yes nor no")
    return pairs


def _answered_by_one_model(pairs: list[Pair], model: str | None) -> list[Pair]:
    """Keep what one judge model answered: two models do not err in the same way."""
    by_source = Counter((pair.model, pair.evaluator_version) for pair in pairs)
    chosen = [source for source in by_source if model is None or source[0] == model]
    if not chosen:
        models = ", ".join(sorted({printable(name, 200) or "(not named)" for name, _ in by_source}))
        raise ConfigurationError(f"no label is of an answer of {model}: there are {models}")
    if len(chosen) > 1:
        counts = ", ".join(
            f"{printable(name, 200) or '(not named)'} with version {printable(version, 40) or '1'}:"
            f" {by_source[name, version]:,}"
            for name, version in chosen
        )
        raise ConfigurationError(f"several models answered, choose one with --model: {counts}")
    return [pair for pair in pairs if (pair.model, pair.evaluator_version) == chosen[0]]


def _fit(pairs: list[Pair]) -> tuple[FittedCalibration, str]:
    """Return the calibration, and in words why it is not used; empty where it is."""
    from llmeval_sdk.evaluation.calibrations import FittedCalibration
    from llmeval_sdk.offline.agreement import columns
    from llmeval_sdk.statistics import calibrated, held_out_losses
    from llmeval_sdk.statistics.calibration import FEWEST

    probabilities, labels, chances = columns(pairs)
    calibration = calibrated(probabilities, labels, chances)
    before, after = held_out_losses(probabilities, labels, chances)
    first = pairs[0]
    fitted = FittedCalibration(
        calibration, first.evaluator_version or "1", first.model, time.time_ns(), before, after
    )
    if len(pairs) < FEWEST:
        return fitted, f"{len(pairs)} labels are too few: it takes {FEWEST}"
    if calibration.is_identity:
        return fitted, "the probabilities agree with the labels as they are"
    if calibration.slope <= 0:
        return fitted, (
            "the labels run against the judge: what it calls likely good, people call bad. Is the"
            " meaning of yes and no the same for both?"
        )
    if after >= before:
        return fitted, "it would make the probabilities worse on labels it was not fitted to"
    return fitted, ""


def _print(name: str, fitted: FittedCalibration, pairs: list[Pair], verdict: str) -> None:
    calibration = fitted.calibration
    if name == values.EXTRACTION_RISK:
        say_wrapped(f"{plural(len(pairs), 'label')} of values drawn at random")
    else:
        model = printable(fitted.model, 200) or "(a model that is not named)"
        say_wrapped(f"{len(pairs):,} labelled answers of {model}")
    say_wrapped(
        f"log loss on held-out labels: {fitted.loss_before:.4f}, calibrated {fitted.loss_after:.4f}"
    )
    if verdict:
        say_wrapped(f"nothing is changed: {verdict}")
        return
    heading(f"{name}: what its probabilities become")
    rows = [
        (f"{p:.2f}", f"{calibration(p):.2f}") for p in (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
    ]
    table(("judge", "calibrated"), rows, numbers="judge calibrated")
