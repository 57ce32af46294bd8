"""The example and the compose file of `examples/fleet`, and the demo, do what they say."""

import subprocess
import sys
from pathlib import Path

import pytest
from fleet_parts import environment, judging, worker


ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "fleet"


def test_the_example_runs(broker, judge_server, tmp_path):
    """Its app and a worker with its judges, as its own text says."""
    text = (EXAMPLE / "app.py").read_text()
    assert len(text.splitlines()) <= 60
    env = environment(broker.address, tmp_path)
    with worker(judging(env, judge_server, HERE=str(EXAMPLE)), "--app", "app:configure"):
        done = subprocess.run(
            [sys.executable, "-W", "error", "app.py"], cwd=EXAMPLE,
            env=env, capture_output=True, text=True, timeout=100, check=True,
        )  # fmt: skip
    assert done.stdout.splitlines() == [
        "handed over: 10",
        "returned: 10 of them judged: {'groundedness': 5, 'polite': 5}",
    ] or done.stdout.splitlines()[1].startswith("returned: 10")
    assert "Traceback" not in done.stderr


def test_the_compose_file_is_one():
    """It follows the schema of compose files."""
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec",
         str(EXAMPLE / "compose.yaml")],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


@pytest.mark.usefixtures("broker")  # skips it where no Redis can run
@pytest.mark.timeout(420)
def test_the_demo_balances(tmp_path):
    """`make demo-fleet` kills a worker, and every judgement has a verdict or a reason."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "plugins" / "fleet" / "demo.py")],
        env=environment("", tmp_path), capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "worker-1 killed" in done.stdout
    assert "balanced: every judgement has a verdict or a reason" in done.stdout
