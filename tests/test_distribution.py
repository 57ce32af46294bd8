"""The package on the index that has our import's name is another project's, and is told apart."""

import subprocess
import sys
from pathlib import Path

import llmeval_sdk as llmeval
from llmeval_sdk.process.distribution import NAMESAKE


APP = """
import logging
logging.basicConfig(level="WARNING")
import llmeval_sdk as llmeval

@llmeval.workflow
def answer():
    return "Slate."

for _ in range(2):
    llmeval.configure(exporters=["memory"])
    answer()
    llmeval.flush()
"""


def beside(folder):
    """Make a folder in which the other project's package is installed."""
    (folder / "llmeval_sdk-0.1.8.dist-info").mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {NAMESAKE}\nVersion: 0.1.8\n"
    (folder / "llmeval_sdk-0.1.8.dist-info" / "METADATA").write_text(metadata)
    return folder


def run(*args, path):
    return subprocess.run(
        [sys.executable, *args],
        env={"PYTHONPATH": str(path), "LLMEVAL_STORE": str(path / "s.db"), "HOME": str(path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_start_beside_the_other_project_says_so_once(tmp_path):
    """One line names both distributions and what to do, however often the app configures."""
    done = run("-c", APP, path=beside(tmp_path))
    lines = [line for line in done.stderr.splitlines() if "llmeval-inprocess" in line]
    assert len(lines) == 1, done.stderr
    assert "llmeval-sdk 0.1.8" in lines[0]
    assert "pip uninstall llmeval-sdk" in lines[0]


def test_a_start_without_it_says_nothing(tmp_path):
    """No word of a distribution stands in the log of an ordinary installation."""
    assert "llmeval-sdk" not in run("-c", APP, path=tmp_path).stderr


def test_doctor_finds_the_other_project(tmp_path):
    """It is a finding that is not well, since a later upgrade may put one in place of the other."""
    done = run("-m", "llmeval_sdk", "doctor", path=beside(tmp_path))
    assert "llmeval-sdk 0.1.8 is installed too" in " ".join(done.stdout.split())
    assert done.returncode == 1


def test_nothing_tells_people_to_install_the_other_project():
    """No page, message or file of the package names its distribution, but for addresses."""
    root = Path(__file__).resolve().parents[1]
    folders = ("llmeval_sdk", "docs", "examples", "benchmarks")
    files = [path for folder in folders for path in (root / folder).rglob("*") if path.is_file()]
    beside = ("README.md", "pyproject.toml", "Makefile", "CONTRIBUTING.md")
    files += [root / name for name in beside if (root / name).exists()]
    wrong = [
        f"{path.relative_to(root)}: {line.strip()}"
        for path in files
        if path.suffix in (".py", ".md", ".toml", ".yaml", ".json", ".txt", "")
        and path.name != "distribution.py"
        for line in path.read_text("utf-8", "replace").splitlines()
        if NAMESAKE in line.replace(f"com/{NAMESAKE}", "")
    ]
    assert wrong == []


def test_the_version_is_that_of_the_distribution():
    """`llmeval_sdk.__version__` is read from the installed package."""
    assert llmeval.__version__ != "0"
