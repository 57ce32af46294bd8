"""Where Ragas runs: in a child process by default, else on a thread of this process.

The thread is taken when it was asked for, when the app has imported Ragas itself (its changes to
the singletons then apply), for metric objects, for a judge model that is an object of the app's,
and where there are no local sockets (Windows).
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import JudgeError
from llmeval_sdk.model.protocols import LLM
from llmeval_sdk.plugins.ragas import _thread
from llmeval_sdk.plugins.ragas.child import ChildSpec, child, interpreter
from llmeval_sdk.plugins.ragas.settings import RagasSettings


DEADLINE_SHARE = 0.9
"""Share of a judgement's time that the metric has; the rest is for ending it in good order."""
MARK = "llmeval-ragas.json"
"""The file that tells an environment made by ``llmeval ragas setup``."""
QUIET = {
    "RAGAS_DO_NOT_TRACK": "true",
    "HAYSTACK_TELEMETRY_ENABLED": "false",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
"""Ragas posts every call to its makers unless it reads exactly the word ``true``."""


async def run(job: Mapping[str, Any], llm: LLM, settings: Settings) -> Mapping[str, Any]:
    """Run one metric and return the engine's answer; raises `JudgeError` where it cannot run."""
    seconds = settings.judge_timeout * DEADLINE_SHARE
    address = _address_of(llm)
    if in_thread(job["metric"], address, settings):
        return await _thread.run(job, llm, settings.of(RagasSettings).ragas_setup, seconds)
    spec = spec_of(settings)
    return await child(spec).call({**job, "model": address}, seconds=seconds)


def in_thread(metric: Any, address: Mapping[str, Any] | None, settings: Settings) -> bool:
    """Say whether a metric runs in this process."""
    if not isinstance(metric, str):
        return True
    own = settings.of(RagasSettings)
    if own.judge_worker is not None:
        return own.judge_worker == "thread"
    imported = "ragas" in sys.modules and own.ragas_python is None
    return imported or address is None or not hasattr(socket, "AF_UNIX")


def _address_of(llm: Any) -> Mapping[str, Any] | None:
    """Return how another process reaches the same model; ``None`` where only this one can."""
    address = getattr(llm, "address", None)
    found: Mapping[str, Any] | None = address() if callable(address) else None
    return found


def spec_of(settings: Settings) -> ChildSpec:
    """Say which child runs Ragas; raises `JudgeError` where no interpreter has it."""
    python = python_of(settings)
    if python is None:
        raise JudgeError("not_installed", _HOW)
    own = python != interpreter()
    return ChildSpec(
        handler="llmeval_sdk.plugins.ragas._engine:open_engine",
        python=python,
        paths=_paths(settings, own=own),
        options={"setup": settings.of(RagasSettings).ragas_setup},
        environment=QUIET,
        shared_by=str(Path(settings.store).resolve().parent),
        idle_seconds=settings.of(RagasSettings).ragas_idle_seconds,
        memory_bytes=settings.of(RagasSettings).ragas_memory_bytes,
    )


_HOW = (
    "Ragas is not installed: pip install 'llmeval-inprocess[ragas]', or run `llmeval ragas setup`, "
    "which gives it an environment of its own"
)


def python_of(settings: Settings) -> str | None:
    """Find the interpreter that has Ragas: named, this one, or that of ``llmeval ragas setup``."""
    if settings.of(RagasSettings).ragas_python:
        return settings.of(RagasSettings).ragas_python
    if find_spec("ragas") is not None:
        return interpreter()
    home = default_home()
    return str(python_in(home)) if mark(home).get("complete") else None


def default_home() -> Path:
    """Return the folder where ``llmeval ragas setup`` makes its environment."""
    return Path.home() / ".llmeval" / "ragas"


def python_in(home: Path) -> Path:
    """Return the interpreter of an environment."""
    return home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _paths(settings: Settings, *, own: bool) -> tuple[str, ...]:
    """Return the folders the child imports from beside its own.

    This interpreter's are this process's. Another interpreter gets none, only what is the app's own
    where a set-up function has to be imported, and never another environment's packages.
    """
    here = [str(Path(path or ".").resolve()) for path in sys.path]
    if not own:
        return tuple(here)
    if not settings.of(RagasSettings).ragas_setup:
        return ()
    prefixes = (sys.prefix, sys.base_prefix)
    return tuple(path for path in here if not path.startswith(prefixes))


def where(settings: Settings) -> tuple[bool, str, str]:
    """Say for ``doctor`` whether Ragas can run, in which interpreter, and how or why not."""
    wrong = problem(settings)
    own = settings.of(RagasSettings)
    place = "a thread of the app" if own.judge_worker == "thread" else "a child process"
    if own.judge_worker is None and own.ragas_python is None:
        place += ", or on a thread where the app has imported Ragas itself"
    return wrong is None, python_of(settings) or "Ragas", wrong or f"runs in {place}"


def problem(settings: Settings) -> str | None:
    """Say in one line why Ragas cannot run, for ``doctor``; ``None`` where nothing is known."""
    python = python_of(settings)
    if python is None:
        return _HOW
    if not Path(python).exists():
        return f"LLMEVAL_RAGAS_PYTHON={python}: there is no such file"
    return _broken(python, _paths(settings, own=python != interpreter()))


def _broken(python: str, paths: tuple[str, ...]) -> str | None:
    """Import Ragas in the interpreter and tell the last line of what it says, if it fails."""
    import subprocess

    code = f"import sys; sys.path.extend({paths!r}); import ragas.metrics"
    try:
        done = subprocess.run(  # noqa: S603 - the interpreter the user named
            [python, "-I", "-c", code],
            capture_output=True, text=True, timeout=60, check=False, env={**QUIET},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{python}: {type(error).__name__}"
    if done.returncode:
        return f"{python}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
    return None


def mark(home: Path) -> dict[str, Any]:
    """Read what ``llmeval ragas setup`` noted about an environment."""
    try:
        noted: dict[str, Any] = json.loads((home / MARK).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return noted
