"""The calibrations of judges, which ``llmeval judges --calibrate`` writes into the file of state.

Each is of one judge, its version, and the exact model that answered when it was fitted. Where one
of these has moved on, the calibration is stale and is not applied, because nobody knows how the new
model errs. A file that cannot be read calibrates nothing, and says why.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from llmeval_sdk import registry
from llmeval_sdk.errors import DataError
from llmeval_sdk.model import values
from llmeval_sdk.statistics.calibration import Calibration
from llmeval_sdk.store.state import WatchedText, change_text, parsed_text


FORMAT = 1
TEXT = "calibrations"
"""The text of the file of state that holds them."""
MAX_CHARACTERS = 1 << 20
MAX_JUDGES = 1_000
_NOUN = "the calibrations"


@dataclass(frozen=True, slots=True)
class FittedCalibration:
    """A calibration with what it was fitted to.

    Args:
        calibration: The map from the judge's probability to the calibrated one.
        judge_version: The version of the judge that was asked.
        model: The exact name of the model that answered.
        fitted_ns: When it was fitted, in nanoseconds since the epoch.
        loss_before: The mean log loss on held-out labels without it.
        loss_after: The same with it.
    """

    calibration: Calibration
    judge_version: str
    model: str
    fitted_ns: int
    loss_before: float
    loss_after: float

    def is_stale(self, judge_version: str, model: str) -> bool:
        """Say whether another judge or model answers now than the one that it was fitted to."""
        return (judge_version, model) != (self.judge_version, self.model)


def read(path: Path) -> dict[str, FittedCalibration]:
    """Return the calibrations by judge; none where there is no file.

    Raises:
        DataError: the file cannot be read, or holds no calibrations of this format.
    """
    return parsed_text(path, TEXT, _parsed, _NOUN)


def of_chances(path: Path) -> FittedCalibration | None:
    """Return the calibration that moves chances of errors to the app's own rate of errors.

    It is ``None`` unless ``llmeval judges --calibrate`` was run for ``extraction_risk`` in its
    current version.
    """
    try:
        fitted = read(path).get(values.EXTRACTION_RISK)
    except DataError:
        return None
    current = registry.known(values.EXTRACTION_RISK)
    version = getattr(current, "version", "")
    return fitted if fitted is not None and fitted.judge_version == version else None


def write(path: Path, calibrations: Mapping[str, FittedCalibration]) -> None:
    """Put the calibrations in the place of those in the file, at once and as a whole."""
    plain = {"format": FORMAT, "judges": {name: asdict(one) for name, one in calibrations.items()}}
    text = json.dumps(plain, allow_nan=False)
    change_text(path, TEXT, lambda _: text, _NOUN)


class Calibrations:
    """The file as a long-lived process reads it: looked at again once it has changed.

    Args:
        path: where the file lies.
        complain: is called once for each thing that is wrong with it.
    """

    def __init__(self, path: Path, complain: Callable[[str], object]) -> None:
        self._text = WatchedText(path, TEXT, _parsed, noun=_NOUN, complain=complain)

    def of(self, judge: str, judge_version: str, model: str) -> Calibration | None:
        """Return the calibration that applies; ``None`` where there is none or it is stale."""
        fitted = self._text.read().get(judge)
        if fitted is None:
            return None
        if fitted.is_stale(judge_version, model):
            self._text.say(stale(judge, fitted, model))
            return None
        return fitted.calibration


def stale(judge: str, fitted: FittedCalibration, model: str) -> str:
    """Say in one sentence that a calibration does not fit what answers now."""
    return (
        f"the calibration of {judge} was fitted to version {fitted.judge_version} asking"
        f" {fitted.model or 'an unknown model'}, and {model or 'an unknown model'} answers now:"
        " it is not applied until llmeval judges --calibrate is run on labels of the new one"
    )


def _parsed(text: str) -> dict[str, FittedCalibration]:
    """Read what `write` wrote; raises `DataError` for anything else."""
    if not text:
        return {}
    if len(text) > MAX_CHARACTERS:
        raise DataError(f"the calibrations have more than {MAX_CHARACTERS:,} characters")
    try:
        plain = json.loads(text)
        if plain["format"] != FORMAT:
            raise DataError(f"the calibrations have format {plain['format']!r:.20}, not {FORMAT}")
        judges = plain["judges"].items()
        if len(judges) > MAX_JUDGES:
            raise DataError(f"the calibrations name more than {MAX_JUDGES:,} judges")
        return {str(name): _fitted(entry) for name, entry in judges}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        raise DataError("these are no calibrations: run llmeval judges --calibrate again") from None


def _fitted(entry: Mapping[str, Any]) -> FittedCalibration:
    plain = entry["calibration"]
    calibration = Calibration(
        _number(plain["slope"], 1e-3, 1_000),  # one that falls would turn good into bad
        _number(plain["shift"], -1_000, 1_000),
        int(_number(plain["labels"], 0, 1e12)),
    )
    version = str(entry["judge_version"])[:200]
    if plain.get("knots"):  # of 0.1.0: nothing says how slope and shift would correct it
        version += ", as a curve, which is applied no longer,"
    return FittedCalibration(
        calibration,
        version,
        str(entry["model"])[:200],
        int(_number(entry["fitted_ns"], 0, 2**63)),
        _number(entry["loss_before"], 0, 1_000),
        _number(entry["loss_after"], 0, 1_000),
    )


def _number(value: object, low: float, high: float) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not isfinite(value):
        raise ValueError("not a number")
    if not low <= value <= high:
        raise ValueError("not a number in its range")
    return float(value)
