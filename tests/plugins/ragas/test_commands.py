"""``llmeval run`` and ``llmeval ragas setup``."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from llmeval_sdk.cli import main
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.plugins.ragas import runner


ROOT = str(Path(__file__).resolve().parents[3])
PROGRAM = """
    import json, sys
    from llmeval_sdk.pipeline import runtime
    from llmeval_sdk.tracing.internals import state
    print(json.dumps({
        "argv": sys.argv[1:],
        "enabled": state.enabled,
        "configured": runtime.in_force.pipeline is not None,
        "evaluators": [judge.name for judge in runtime.in_force.pipeline.plan.judges] if runtime.in_force.pipeline else [],
        "mark": getattr(sys, "mark_of_another_tool", None),
        "bootstrap_on_path": [path for path in sys.path if path.endswith("_bootstrap")],
    }))
"""


@pytest.fixture
def program(tmp_path):
    """Return a function that runs a program under ``llmeval run``."""
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(PROGRAM))

    def run(*arguments, **variables):
        done = subprocess.run(
            [sys.executable, "-m", "llmeval_sdk", "run", sys.executable, str(file), *arguments],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": ROOT, "HOME": str(tmp_path), **variables},
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=30,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_a_program_that_never_mentions_us_is_set_up(program):
    """Its arguments are its own; what the environment asks for is on before its first line."""
    seen = program("--flag", "x", DD_LLMOBS_EVALUATORS="ragas_faithfulness")
    assert seen["argv"] == ["--flag", "x"]
    assert seen["configured"] is True
    assert "ragas_faithfulness" in seen["evaluators"]
    assert seen["bootstrap_on_path"] == []


def test_another_tools_sitecustomize_still_runs(program, tmp_path):
    """Such as that of ddtrace-run, which ours would hide."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("import sys; sys.mark_of_another_tool = 'here'")
    seen = program(PYTHONPATH=os.pathsep.join([str(other), ROOT]))
    assert (seen["mark"], seen["configured"]) == ("here", True)


def test_switched_off_by_the_environment_nothing_is_set_up(program):
    """LLMEVAL_ENABLED=false holds under ``llmeval run`` too."""
    assert program(LLMEVAL_ENABLED="false")["enabled"] is False


def test_a_broken_environment_does_not_stop_the_program(program):
    """It is told on the way; the program runs."""
    seen = program(
        "x", LLMEVAL_JUDGE_CONCURRENCY="many", DD_LLMOBS_EVALUATOR_SAMPLING_RULES="{broken"
    )
    assert (seen["argv"], seen["configured"]) == (["x"], True)


def test_run_without_a_command_and_with_an_unknown_one(capsys):
    """Both are told, with the exit status of a wrong use."""
    assert main(["run"]) == 2
    assert "usage: llmeval run" in capsys.readouterr().out
    assert main(["run", "no-such-command-anywhere"]) == 2
    assert "no-such-command-anywhere: No such file" in capsys.readouterr().err


@pytest.fixture
def quick(monkeypatch):
    """Make environments without a package index."""
    done = []

    def step(what, command, tell):
        done.append(what)
        tell(what, 0.0)
        if command[1:3] == ["-m", "venv"]:
            python = runner.python_in(Path(command[3]))
            python.parent.mkdir(parents=True, exist_ok=True)
            python.touch()

    monkeypatch.setattr(runner, "_step", step)
    return done


def test_the_environment_is_made_once_and_taken_away(quick, tmp_path, capsys, monkeypatch):
    """Setting up again changes nothing; it is found without a variable; removing it again is fine."""
    home = tmp_path / "ragas"
    assert main(["ragas", "setup", "--dir", str(home)]) == 0
    assert len(quick) == 4
    assert f"LLMEVAL_RAGAS_PYTHON={runner.python_in(home)}" in capsys.readouterr().out
    assert main(["ragas", "setup", "--dir", str(home)]) == 0
    assert len(quick) == 4
    assert "ready already" in capsys.readouterr().out

    from llmeval_sdk import config

    monkeypatch.setattr(runner, "find_spec", lambda name: None)
    monkeypatch.setattr(runner, "default_home", lambda: home)
    settings = config.from_environment({}, problems=[])
    assert runner.python_of(settings) == str(runner.python_in(home))

    assert main(["ragas", "setup", "--dir", str(home), "--remove"]) == 0
    assert not home.exists()
    assert main(["ragas", "setup", "--dir", str(home), "--remove"]) == 0


def test_an_interrupted_set_up_is_taken_up_again(quick, tmp_path, monkeypatch):
    """What was begun is ours and is not used before it is complete."""
    home = tmp_path / "ragas"
    home.mkdir()
    runner._note(home, {**runner._wanted(), "complete": False})
    assert not runner.mark(home)["complete"]
    assert runner.make_environment(home, lambda what, seconds: None) is True
    assert runner.mark(home)["complete"]


def test_a_folder_that_is_not_ours_is_left_alone(quick, tmp_path, capsys):
    """Neither filled nor deleted."""
    (tmp_path / "precious").touch()
    assert main(["ragas", "setup", "--dir", str(tmp_path)]) == 2
    assert main(["ragas", "setup", "--dir", str(tmp_path), "--remove"]) == 2
    assert (tmp_path / "precious").exists()
    assert quick == []


def test_a_step_that_fails_tells_the_end_of_what_it_said():
    """The last lines of a package installer are the ones that help."""
    code = "print('Collecting a'); print('no such version'); raise SystemExit(1)"
    told = []
    with pytest.raises(ConfigurationError, match=r"could not install it:\n(.*\n)*no such version"):
        runner._step(
            "install it", [sys.executable, "-c", code], lambda what, seconds: told.append(what)
        )
    assert told[0] == "install it"
    assert "install it: 1 packages" in told


def pinned(path):
    """Return name -> versions of a requirements file, names as pip compares them."""
    found = {}
    for line in path.read_text().splitlines():
        if line[:1].isalnum():
            name, version = line.partition(";")[0].rstrip(" \\").split("==")
            found.setdefault(name.lower(), set()).add(version.strip())
    return found


def test_all_that_is_installed_is_pinned_with_hashes():
    """The file names every package, its version and its hashes, and no place to fetch it from."""
    text = runner.LOCKED.read_text()
    entries = text.split("\n", 2)[2].replace("\\\n", " ").splitlines()
    assert len(entries) > 80
    for entry in entries:
        requirement, *hashes = entry.split("--hash=")
        assert "==" in requirement
        assert hashes
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each.strip()) for each in hashes)
    assert "://" not in text
    locked = pinned(runner.LOCKED)
    for name, versions in pinned(runner.LOCKED.with_name("pins.txt")).items():
        assert locked[name] == versions


def test_the_installer_takes_nothing_without_its_hash(tmp_path, monkeypatch):
    """Pip is told to refuse every file whose hash is not in the list."""
    commands = []
    monkeypatch.setattr(runner, "_step", lambda what, command, tell: commands.append(command))
    runner.make_environment(tmp_path / "ragas", lambda what, seconds: None)
    (install,) = [command for command in commands if "install" in command]
    assert install[-3:] == ["--require-hashes", "-r", str(runner.LOCKED)]
