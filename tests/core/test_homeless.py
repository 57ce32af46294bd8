"""A user without a home, such as the number that a container runs as, loses nothing but its cache."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest


ROOT = Path(__file__).resolve().parents[2]
STRANGER = 54_321
"""A user id that no system has in its list of users."""
AS_STRANGER = (
    "setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups",
    # Root's Python may stand where nobody else may look.
    "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
)  # fmt: skip
HOMES = {"unset": None, "empty": "", "a file": "a-file", "nowhere": "/nonexistent"}
APP = """
    import llmeval_sdk as llmeval

    @llmeval.workflow
    def answer(question):
        return "Slate."

    answer("What is the roof made of?")
    stats = llmeval.flush(timeout=50).exporters["local"]
    print(stats.delivered, stats.in_memory)
"""


class Stranger:
    """Runs Python as a user without a home."""

    def __init__(self, home, folder):
        self.folder = folder
        self._prefix = ()
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if home is not None:
            self.environment["HOME"] = str(folder / home) if home == "a-file" else home
        (folder / "a-file").touch()
        if os.geteuid() == 0 and shutil.which("setpriv"):
            os.chown(folder, STRANGER, STRANGER)
            self._prefix = AS_STRANGER
        elif os.geteuid() == 0:
            pytest.skip("without setpriv, root can make a home anywhere")
        else:
            simulation = ROOT / "tests" / "support" / "other_system"
            self.environment["PYTHONPATH"] += f"{os.pathsep}{simulation}"
            self.environment["SIMULATED_SYSTEM"] = "no list of users"

    def python(self, *arguments, **variables):
        return subprocess.run(
            [*self._prefix, sys.executable, *arguments], cwd=self.folder, capture_output=True,
            env=self.environment | variables, text=True, timeout=150, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def command(self, words, **variables):
        ended = self.python("-m", "llmeval_sdk", *words.split(), **variables)
        assert "Traceback" not in ended.stderr, ended.stderr
        return ended


@pytest.fixture(params=HOMES)
def stranger(request, tmp_path):
    return Stranger(HOMES[request.param], tmp_path)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="every user has a home there")
def test_python_itself_knows_no_home(tmp_path):
    """What the tests below rely on."""
    ended = Stranger(None, tmp_path).python("-c", "import pathlib; pathlib.Path.home()")
    assert "Could not determine home directory" in ended.stderr


def test_a_data_set_is_evaluated(stranger):
    """Where no judge is asked, nothing has to be kept at home."""
    row = {"request": "Of what?", "response": "Slate.", "retrieved_context": [{"content": "slate"}]}
    (stranger.folder / "rows.jsonl").write_text(json.dumps(row), "utf-8")
    ended = stranger.command("evaluate rows.jsonl --save run.jsonl")
    assert ended.returncode == 0, ended.stderr
    assert (stranger.folder / "run.jsonl").is_file()


def test_a_store_at_home_is_kept_in_memory(stranger):
    """As where the home is there and cannot be written to: nothing is dropped, and one line says so."""
    path = stranger.folder / "app.py"
    path.write_text(textwrap.dedent(APP), "utf-8")
    ended = stranger.python("app.py", LLMEVAL_STORE="~/traces/llmeval.db")
    assert ended.returncode == 0
    delivered, in_memory = map(int, ended.stdout.split())
    assert delivered == in_memory > 0
    assert "scores are kept in memory only" in ended.stderr


@pytest.mark.parametrize(
    "words",
    [
        "traces", "report", "explain --last", "doctor --offline", "agent --once --spool ~/spool",
        "backup ~/kept", "prune", "dataset list",
    ],
)  # fmt: skip
def test_a_command_ends_by_a_sentence(tmp_path, words):
    """Whatever of its paths is at home."""
    ended = Stranger(None, tmp_path).command(words, LLMEVAL_STORE="~/traces/llmeval.db")
    assert ended.returncode == (0 if words == "dataset list" else 1 if "doctor" in words else 2)
    assert "/dev/null" in ended.stderr + ended.stdout or words == "dataset list"


@pytest.mark.plugin("ragas")
def test_the_environment_of_ragas_is_not_there(tmp_path):
    """It would stand at home."""
    ended = Stranger(None, tmp_path).command("ragas setup --remove")
    assert ended.stdout.startswith("there is no ")
    assert ended.returncode == 0
