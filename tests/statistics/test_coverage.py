"""95 % intervals contain the truth in about 95 % of simulated runs, whatever the heuristic is worth.

Fewer runs than the script makes, so the bounds are wider than its 93 to 97 %.
"""

import importlib.util
from pathlib import Path

import pytest


PATH = Path(__file__).parents[2] / "benchmarks" / "quality" / "interval_coverage.py"
RUNS, RECORDS = 40, 2_000


def script():
    spec = importlib.util.spec_from_file_location("interval_coverage", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPT = script()


@pytest.mark.parametrize("case", SCRIPT.CASES, ids=lambda case: case.name)
def test_intervals_contain_the_truth(case):
    """At the spend that was asked for, where the plain mean of the judged may be far off."""
    found = SCRIPT.simulate(case, runs=RUNS, records=RECORDS, assisted=False)
    assert found.coverage >= 0.86
    assert found.width < 0.3
    assert 0.19 <= found.spend <= 0.21
    assert abs(found.bias) < 0.025
    if case.lift and case.rate is None:
        assert abs(found.raw_bias) > 0.05


def test_a_free_score_narrows_and_still_covers():
    """Model-assisted intervals are shorter at random sampling by a useful heuristic."""
    case = SCRIPT.CASES[-1]
    found = SCRIPT.simulate(case, runs=40, records=RECORDS, assisted=True)
    assert found.coverage_assisted >= 0.85
    assert found.width_assisted < 0.97 * found.width
