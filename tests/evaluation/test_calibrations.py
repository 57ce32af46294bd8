"""The file of calibrations: whole or not at all, for one judge asking one model."""

import json
import os
from contextlib import closing

import pytest

from llmeval_sdk.errors import DataError
from llmeval_sdk.evaluation import calibrations
from llmeval_sdk.evaluation.calibrations import Calibrations, FittedCalibration
from llmeval_sdk.statistics.calibration import Calibration
from llmeval_sdk.store import state
from llmeval_sdk.store.state import SharedText, StateFile, state_path


@pytest.fixture
def path(tmp_path):
    return state_path(tmp_path / "store" / "llmeval.db")


def fitted(**changes):
    shape = {"calibration": Calibration(0.6, -0.3, 200), "judge_version": "1", "model": "luna-1"}
    times = {"fitted_ns": 1, "loss_before": 0.4, "loss_after": 0.3}
    return FittedCalibration(**{**shape, **times, **changes})


def test_what_is_written_is_read(path):
    """The file is its owner's alone."""
    both = {"a": fitted(), "b": fitted(calibration=Calibration(1.2, 0.1, 1_000))}
    calibrations.write(path, both)
    assert calibrations.read(path) == both
    files = [file for file in path.parent.iterdir() if file.name.startswith(path.name)]
    assert path in files
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)


def test_no_file_is_no_calibration(path):
    """Which is what most apps have."""
    assert calibrations.read(path) == {}


def test_another_model_makes_it_stale_and_is_told_once(path):
    """Nobody knows how the new one errs."""
    problems = []
    calibrations.write(path, {"groundedness": fitted()})
    known = Calibrations(path, problems.append)
    assert known.of("groundedness", "1", "luna-1")(0.9) != 0.9
    assert known.of("safety", "1", "luna-1") is None
    assert not problems
    for _ in range(3):
        assert known.of("groundedness", "1", "luna-2") is None
        assert known.of("groundedness", "2", "luna-1") is None
    assert len(problems) == 1 or all("groundedness" in line for line in problems)
    assert "luna-2 answers now" in problems[0]
    assert len(problems) == len(set(problems))


def test_a_new_file_is_noticed(path, monkeypatch):
    """A worker runs for weeks."""
    monkeypatch.setattr(state, "LOOK_AGAIN_SECONDS", 0.0)
    known = Calibrations(path, print)
    for _ in range(2):
        assert known.of("groundedness", "1", "luna-1") is None
    assert not path.exists()
    assert known.of("groundedness", "1", "luna-1") is None
    calibrations.write(path, {"groundedness": fitted()})
    assert known.of("groundedness", "1", "luna-1") is not None
    path.unlink()
    assert known.of("groundedness", "1", "luna-1") is None


def test_a_file_that_could_not_be_read_for_a_while_applies_again(path, monkeypatch):
    """Without a restart, and though its text is the same."""
    monkeypatch.setattr(state, "LOOK_AGAIN_SECONDS", 0.0)
    problems = []
    calibrations.write(path, {"groundedness": fitted()})
    known = Calibrations(path, problems.append)
    for mode, applies in ((0o600, True), (0o666, False), (0o600, True)):
        path.chmod(mode)
        assert (known.of("groundedness", "1", "luna-1") is not None) == applies
    assert len(problems) == 1


def test_another_file_is_noticed_though_its_version_is_the_same(path, monkeypatch):
    """Versions of a new file begin at 1 again."""
    monkeypatch.setattr(state, "LOOK_AGAIN_SECONDS", 0.0)
    known = Calibrations(path, print)
    for name in ("groundedness", "safety"):
        calibrations.write(path, {name: fitted()})
        assert known.of(name, "1", "luna-1") is not None
        path.unlink()


def entry(**changes):
    shape = json.loads(
        json.dumps({"calibration": {"slope": 1, "shift": 0, "labels": 1, "knots": []}})
    )
    shape["calibration"] |= changes
    rest = {"judge_version": "1", "model": "m", "fitted_ns": 1, "loss_before": 1, "loss_after": 1}
    return {"format": 1, "judges": {"a": {**shape, **rest}}}


def test_a_curve_of_an_earlier_version_is_stale_and_is_told(path):
    """0.1.0 fitted curves to many labels: one corrects nothing now, and the others still do."""
    plain = entry(knots=[[0.1, 0.2], [0.9, 0.7]])
    plain["judges"]["b"] = entry(slope=0.5)["judges"]["a"]
    with closing(SharedText(StateFile(path), calibrations.TEXT)) as kept:
        kept.update(lambda _: (json.dumps(plain), None))
    problems = []
    known = Calibrations(path, problems.append)
    assert known.of("a", "1", "m") is None
    assert known.of("b", "1", "m")(0.9) != 0.9
    assert len(problems) == 1
    assert "as a curve, which is applied no longer" in problems[0]


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "[]",
        "{",
        "[" * 100_000,
        '{"format": 2, "judges": {}}',
        '{"format": 1}',
        '{"format": 1, "judges": [1]}',
        '{"format": 1, "judges": {"a": {}}}',
        json.dumps(entry(slope=float("nan"))),
        json.dumps(entry(slope=1e9)),
        json.dumps(entry(slope="1")),
        json.dumps(entry(slope=-1)),
        json.dumps({"format": 1, "judges": {str(n): {} for n in range(1_001)}}),
        " " * (1 << 20) + "{}",
    ],
)  # fmt: skip
def test_a_text_that_is_none_calibrates_nothing_and_says_so(path, text):
    """It may be half a text, another's, or an attack."""
    with closing(SharedText(StateFile(path), calibrations.TEXT)) as kept:
        kept.update(lambda _: (text, None))
    with pytest.raises(DataError, match="calibration"):
        calibrations.read(path)
    problems = []
    assert Calibrations(path, problems.append).of("a", "1", "m") is None
    assert len(problems) == 1


def test_a_file_that_is_damaged_calibrates_nothing_and_says_so(path):
    """It is left to those who write it."""
    path.parent.mkdir()
    path.write_bytes(b"no database" * 100)
    path.chmod(0o600)
    with pytest.raises(DataError, match="calibration"):
        calibrations.read(path)
    problems = []
    assert Calibrations(path, problems.append).of("a", "1", "m") is None
    assert len(problems) == 1


def test_what_others_could_have_written_is_not_applied(path):
    """A calibration can turn every verdict."""
    calibrations.write(path, {"groundedness": fitted()})
    path.chmod(0o666)
    with pytest.raises(DataError, match="not read"):
        calibrations.read(path)


def test_a_pipe_in_its_place_holds_nobody_up(path):
    """It is looked at before it is opened."""
    path.parent.mkdir()
    os.mkfifo(path)
    with pytest.raises(DataError, match="no plain file"):
        calibrations.read(path)
