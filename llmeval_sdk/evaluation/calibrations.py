"""The calibrations of judges: a small file beside the store, which ``llmeval calibrate`` writes.

Each is of one judge, its version, and the exact model that answered when it was fitted. Where one
of these has moved on, the calibration is stale and is not applied, because nobody knows how the new
model errs. A file that cannot be read calibrates nothing, and says why.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from time import monotonic
from typing import Any

from llmeval_sdk.errors import DataError
from llmeval_sdk.process import private
from llmeval_sdk.process.private import replace_text
from llmeval_sdk.statistics.calibration import MAX_KNOTS, Calibration


FORMAT = 1
MAX_BYTES = 1 << 20
MAX_JUDGES = 1_000
LOOK_AGAIN_SECONDS = 30.0


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


def path_beside(store: str | Path) -> Path:
    """Return where the calibrations of a store's app lie."""
    return Path(store).with_suffix(".calibration")


def read(path: Path) -> dict[str, FittedCalibration]:
    """Return the calibrations by judge; none where there is no file.

    Raises:
        DataError: the file is too large or no calibration file of this format.
    """
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise DataError(f"{path} is no plain file, so it is no calibration file")
        private.check_file(path, reading=True)
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        problem = error.strerror or str(error)
        raise DataError(f"the calibration file {path} is not read: {problem}") from None
    if len(data) > MAX_BYTES:
        raise DataError(f"{path} is larger than {MAX_BYTES >> 20} MiB: it is no calibration file")
    try:
        plain = json.loads(data)
        if plain["format"] != FORMAT:
            raise DataError(f"{path} has the format {plain['format']!r:.20}, not {FORMAT}")
        judges = plain["judges"].items()
        if len(judges) > MAX_JUDGES:
            raise DataError(f"{path} names more than {MAX_JUDGES:,} judges")
        return {str(name): _fitted(entry) for name, entry in judges}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        raise DataError(f"{path} is no calibration file: run llmeval calibrate again") from None


def write(path: Path, calibrations: Mapping[str, FittedCalibration]) -> None:
    """Put the calibrations in the place of those in the file, at once and as a whole."""
    plain = {"format": FORMAT, "judges": {name: asdict(one) for name, one in calibrations.items()}}
    replace_text(path, json.dumps(plain, indent=1, allow_nan=False) + "\n")


class Calibrations:
    """The file as a long-lived process reads it: looked at again once it has changed.

    Args:
        path: where the file lies.
        complain: is called once for each thing that is wrong with it.
    """

    def __init__(self, path: Path, complain: Any) -> None:
        self._path = path
        self._complain = complain
        self._said: set[str] = set()
        self._looked = float("-inf")
        self._changed: tuple[int, int] | None = None
        self._judges: dict[str, FittedCalibration] = {}

    def of(self, judge: str, judge_version: str, model: str) -> Calibration | None:
        """Return the calibration that applies; ``None`` where there is none or it is stale."""
        self._look()
        fitted = self._judges.get(judge)
        if fitted is None:
            return None
        if fitted.is_stale(judge_version, model):
            self._say(stale(judge, fitted, model))
            return None
        return fitted.calibration

    def _look(self) -> None:
        now = monotonic()
        if now - self._looked < LOOK_AGAIN_SECONDS:
            return
        self._looked = now
        try:
            status = self._path.stat()
            changed = (status.st_mtime_ns, status.st_size)
        except OSError:
            changed = None
        if changed == self._changed:
            return
        self._changed = changed
        try:
            self._judges = read(self._path)
        except DataError as error:
            self._judges = {}
            self._say(str(error))

    def _say(self, problem: str) -> None:
        if problem not in self._said and len(self._said) < MAX_JUDGES:
            self._said.add(problem)
            self._complain(problem)


def stale(judge: str, fitted: FittedCalibration, model: str) -> str:
    """Say in one sentence that a calibration does not fit what answers now."""
    return (
        f"the calibration of {judge} was fitted to version {fitted.judge_version} asking"
        f" {fitted.model or 'an unknown model'}, and {model or 'an unknown model'} answers now:"
        " it is not applied until llmeval calibrate is run on labels of the new one"
    )


def _fitted(entry: Mapping[str, Any]) -> FittedCalibration:
    plain = entry["calibration"]
    knots = tuple((_number(x, 0, 1), _number(y, 0, 1)) for x, y in plain["knots"])
    risen = sorted(knots) == list(knots) and sorted(y for _, y in knots) == [y for _, y in knots]
    if len(knots) > MAX_KNOTS or not risen:
        raise ValueError("knots")
    calibration = Calibration(
        _number(plain["slope"], 1e-3, 1_000),  # one that falls would turn good into bad
        _number(plain["shift"], -1_000, 1_000),
        int(_number(plain["labels"], 0, 1e12)),
        knots,
    )
    return FittedCalibration(
        calibration,
        str(entry["judge_version"])[:200],
        str(entry["model"])[:200],
        int(_number(entry["fitted_ns"], 0, 2**63)),
        _number(entry["loss_before"], 0, 1_000),
        _number(entry["loss_after"], 0, 1_000),
    )


def _number(value: Any, low: float, high: float) -> float:
    if type(value) not in (int, float) or not isfinite(value) or not low <= value <= high:
        raise ValueError("not a number in its range")
    return float(value)
