"""Every example is one idea in at most sixty lines, runs offline and prints something."""

import os
import pathlib
import subprocess
import sys

import pytest


EXAMPLES = sorted((pathlib.Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path, tmp_path):
    """The file says what it shows, is short, and works as it stands."""
    text = path.read_text()
    assert text.startswith('"""')
    assert len(text.splitlines()) <= 60
    if (needs := [line for line in text.splitlines() if line.startswith("# needs: ")]) and any(
        not _installed(name.strip()) for name in needs[0].removeprefix("# needs: ").split(",")
    ):
        pytest.skip(needs[0].removeprefix("# "))
    clean = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("LLMEVAL_", "DD_", "OPENAI_", "OTEL_", "LANGFUSE_"))
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=tmp_path,
        env={**clean, "LLMEVAL_STORE": str(tmp_path / "llmeval.db")},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "Traceback" not in done.stderr


def _installed(name):
    from importlib.util import find_spec

    return find_spec(name) is not None
