"""Install an extra into fresh environments on every Python it supports, and use it once.

    python tests/fresh_install.py ragas            # or: ragas,datadog,otel

Not a test of the suite: it takes about a minute per Python. Exits 1 if any of them failed.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support.interpreters import interpreter


ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13")
USES = {
    "ragas": """
import os
import llmeval_sdk as llmeval
from llmeval_sdk import testing
from llmeval_sdk.testing.judge_server import JudgeServer
with JudgeServer(lambda request: {"reason": "r", "verdict": 1}) as server:
    with testing.capture(evaluators=["ragas_context_precision"], judge_model="m",
                         judge_base_url=server.base_url, escalations=[]) as seen:
        with llmeval.workflow("flow", request="q") as span:
            span.response, span.retrieved_context = "a", ["c"]
        seen.drain(60)
    print(seen.scores()["ragas_context_precision"].value)
""",
}


def steps(python, folder, extras):
    """Return the commands of one environment."""
    inside = str(Path(folder) / "bin" / "python")
    pip = [inside, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    yield [python, "-m", "venv", folder]
    yield [*pip, "install", f"{ROOT}[{extras}]"]
    yield [*pip, "check"]
    for extra in extras.split(","):
        if extra in USES:
            yield [inside, "-c", USES[extra]]


def weight(folder):
    """Return what a folder takes on the disk, in MB."""
    sizes = (path.lstat().st_size for path in Path(folder).rglob("*") if path.is_file())
    return sum(sizes) / 1e6


def main():
    """Try every version; returns how many failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("extras")
    parser.add_argument("--python", action="append", help="only this version; may be repeated")
    options = parser.parse_args()
    failed = 0
    for version in options.python or VERSIONS:
        python = interpreter(version)
        if python is None:
            print(f"{version}: not installed here, left out")
            continue
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            for command in steps(python, folder, options.extras):
                done = subprocess.run(
                    command, check=False, capture_output=True, text=True, cwd=folder
                )
                if done.returncode:
                    failed += 1
                    print(f"{version}: FAILED {' '.join(command[1:5])}\n{done.stdout}{done.stderr}")
                    break
            else:
                seconds = time.monotonic() - begun
                print(
                    f"{version}: {options.extras} installs, checks and runs in {seconds:.0f} s "
                    f"and weighs {weight(folder):,.0f} MB"
                )
    return failed


if __name__ == "__main__":
    sys.exit(bool(main()))
