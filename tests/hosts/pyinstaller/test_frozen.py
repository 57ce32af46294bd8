"""An app that PyInstaller froze traces, scores, judges and stores as it did before.

It is built once by the real PyInstaller, into a folder, with no option that names us, and runs
without Python's variables. ``make test-pyinstaller`` makes the environment.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import llmeval_sdk
from llmeval_sdk.testing.judge_server import JudgeServer


pytest.importorskip("PyInstaller", reason="make test-pyinstaller installs it")
APP = Path(__file__).with_name("frozen_app.py")
PACKAGE = Path(llmeval_sdk.__file__).parent
NOT_IN_AN_APP = ("process/_pyinstaller/", "cli/_bootstrap/", "testing/pytest_plugin.py")
"""The hook itself, what `llmeval run` gives to another Python, and what pytest loads."""
BUILD_SECONDS = 400
pytestmark = pytest.mark.timeout(BUILD_SECONDS + 100)


class Frozen:
    """A frozen app and a folder that it runs in."""

    def __init__(self, program, folder):
        self.folder = folder
        self._program = program

    def run(self, *words, given="", **variables):
        ended = subprocess.run(
            [self._program, *words], cwd=self.folder, input=given, capture_output=True, text=True,
            env={"HOME": str(self.folder), "PATH": os.defpath, **variables}, timeout=120,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        return ended


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Build the app, once."""
    folder = tmp_path_factory.mktemp("build")
    built = subprocess.run(
        [
            sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN",
            "--distpath", folder / "dist", "--workpath", folder / "work", "--specpath", folder, APP,
        ],
        cwd=folder, capture_output=True, text=True, timeout=BUILD_SECONDS,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    return folder / "dist" / APP.stem / APP.stem


@pytest.fixture
def frozen(program, tmp_path):
    return Frozen(program, tmp_path)


def test_a_frozen_app_traces_scores_and_judges(frozen):
    """Nothing is lost, and the commands show what stands in its store."""
    with JudgeServer() as server:
        ended = frozen.run(
            LLMEVAL_JUDGE_MODEL="stand-in",
            LLMEVAL_JUDGE_BASE_URL=server.base_url,
            LLMEVAL_JUDGE_API_KEY="none",
        )
        assert server.requests
    ran = json.loads(ended.stdout)
    assert ended.stderr == ""
    assert ran["whole"]
    assert ran["delivered"] > 40
    assert ran["judged"] == {"groundedness": 1}
    assert ran["problems"] == {}
    assert ran["version"] == llmeval_sdk.__version__
    assert ran["offline"] == 1
    explained = frozen.run("llmeval", "explain", "--last").stdout
    assert "groundedness  yes" in explained
    assert "is_short" in explained
    assert "extraction_risk" in frozen.run("llmeval", "report").stdout
    assert "read_invoice" in frozen.run("llmeval", "traces").stdout


def test_a_frozen_app_without_any_variable_scores_for_free(frozen):
    """As a program that people start by a click is run."""
    ran = json.loads(frozen.run().stdout)
    assert ran["whole"]
    assert ran["problems"] == {}
    assert "ok: " in frozen.run("llmeval", "doctor", "--offline").stdout


def test_nothing_of_the_package_is_left_out(frozen):
    """Each module and each file, though most are found by a name at run time only."""
    there = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    there = [name for name in there if not name.startswith(NOT_IN_AN_APP)]
    sources = [name.removesuffix(".py") for name in there if name.endswith(".py")]
    modules = [
        "llmeval_sdk." + name.replace("/", ".").removesuffix(".__init__") for name in sources
    ]
    modules = [name for name in modules if not name.endswith(("__init__", "__main__"))]
    data = [name for name in there if not name.endswith((".py", ".typed"))]
    assert len(modules) > 300
    assert len(data) > 20
    wanted = json.dumps({"modules": modules, "files": data})
    assert json.loads(frozen.run("missing", given=wanted).stdout) == []
