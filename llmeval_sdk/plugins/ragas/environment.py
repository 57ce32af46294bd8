"""An environment of its own for Ragas, so that the app's packages stay as they are."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.plugins.ragas._where import MARK, mark, python_in
from llmeval_sdk.plugins.ragas.child import interpreter


LOCKED = Path(__file__).with_name("locked.txt")
"""Every package with its version and the hashes of its files."""
_IMPORT = "import os; os.environ['RAGAS_DO_NOT_TRACK'] = 'true'; import ragas.metrics.collections"
Tell = Callable[[str, float], None]
"""Is told what goes on, and since how many seconds."""


def make(home: Path, tell: Tell) -> bool:
    """Make the environment, or complete one that was begun; False where nothing was to do.

    Raises:
        ConfigurationError: The folder holds something else, or a step failed; the message has the
            end of what it said.
    """
    wanted = _wanted()
    noted = mark(home)
    if noted == wanted:
        return False
    if not noted and home.exists() and any(home.iterdir()):
        raise ConfigurationError(f"{home} holds something else: choose another folder with --dir")
    if noted.get("python") not in (None, wanted["python"]):
        remove(home)
    home.mkdir(parents=True, exist_ok=True)
    _note(home, {**wanted, "complete": False})
    python = str(python_in(home))
    _step("make the environment", [interpreter(), "-m", "venv", str(home)], tell)
    pip = [python, "-I", "-m", "pip", "--disable-pip-version-check"]
    install = [*pip, "install", "--progress-bar", "off", "--require-hashes", "-r", str(LOCKED)]
    _step("install Ragas", install, tell)
    _step("check the packages", [*pip, "check"], tell)
    _step("import Ragas", [python, "-I", "-c", _IMPORT], tell)
    _note(home, wanted)
    return True


def remove(home: Path) -> bool:
    """Delete an environment that `make` made; False where there is none. Anything else stays."""
    if not home.exists():
        return False
    if not mark(home):
        raise ConfigurationError(f"{home} was not made by `llmeval ragas setup`: left as it is")
    shutil.rmtree(home)
    return True


def _wanted() -> dict[str, Any]:
    return {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "pins": hashlib.sha256(LOCKED.read_bytes()).hexdigest(),
        "complete": True,
    }


def _note(home: Path, noted: dict[str, Any]) -> None:
    (home / MARK).write_text(json.dumps(noted), "utf-8")


def _step(what: str, command: list[str], tell: Tell) -> None:
    """Run one step, told as it goes; raises `ConfigurationError` with the end of its output."""
    begun = monotonic()
    output: deque[str] = deque(maxlen=8)
    packages = 0
    tell(what, 0.0)
    with subprocess.Popen(  # noqa: S603 - our own commands
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            output.append(line.rstrip())
            packages += line.startswith("Collecting ")
            tell(f"{what}: {packages} packages" if packages else what, monotonic() - begun)
    if process.returncode:
        raise ConfigurationError(f"could not {what}:\n" + "\n".join(output))
