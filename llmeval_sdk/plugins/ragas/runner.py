"""Where Ragas runs: in a child process by default, else on a thread of this process.

The thread is taken when it was asked for, when the app has imported Ragas itself (its changes to
the singletons then apply), for metric objects, for a judge model that is an object of the app's,
and where there are no local sockets (Windows).

The child's interpreter is this one, another one that is named, or that of an environment which
``llmeval ragas setup`` makes, so that the app's packages stay as they are.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Any

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError, JudgeError
from llmeval_sdk.model.protocols import LLM
from llmeval_sdk.plugins.ragas import RagasSettings
from llmeval_sdk.plugins.ragas.child import ChildSpec, child, interpreter
from llmeval_sdk.process import private
from llmeval_sdk.process.forks import after_in_child


MEMORY_BYTES = 1 << 30
"""What the child process may take once it is ready."""
IDLE_SECONDS = 300.0
"""Without a job for so long, the child process ends."""
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


async def run(job: Mapping[str, object], llm: LLM, settings: Settings) -> Mapping[str, Any]:
    """Run one metric and return the engine's answer; raises `JudgeError` where it cannot run."""
    seconds = settings.judge_timeout * DEADLINE_SHARE
    address = _address_of(llm)
    if in_thread(job["metric"], address, settings):
        return await _run_on_thread(job, llm, settings.of(RagasSettings).ragas_setup, seconds)
    spec = spec_of(settings)
    return await child(spec).call({**job, "model": address}, seconds=seconds)


def in_thread(metric: object, address: Mapping[str, object] | None, settings: Settings) -> bool:
    """Say whether a metric runs in this process."""
    if not isinstance(metric, str):
        return True
    own = settings.of(RagasSettings)
    if own.judge_worker is not None or not hasattr(socket, "AF_UNIX"):
        return own.judge_worker != "process"
    imported = "ragas" in sys.modules and own.ragas_python is None
    return imported or address is None


def _address_of(llm: object) -> Mapping[str, Any] | None:
    """Return how another process reaches the same model; ``None`` where only this one can."""
    address = getattr(llm, "address", None)
    found: Mapping[str, Any] | None = address() if callable(address) else None
    return found


def spec_of(settings: Settings) -> ChildSpec:
    """Say which child runs Ragas; raises `JudgeError` where no interpreter has it."""
    if not hasattr(socket, "AF_UNIX"):
        raise JudgeError(
            "unsupported",
            "this system has no sockets that are files: set LLMEVAL_JUDGE_WORKER=thread",
        )
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
        idle_seconds=IDLE_SECONDS,
        memory_bytes=MEMORY_BYTES,
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
    return private.expanded("~/.llmeval/ragas")


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


def _where(settings: Settings) -> tuple[bool, str, str]:
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


_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


async def _run_on_thread(
    job: Mapping[str, object], llm: LLM, setup: str | None, seconds: float
) -> Mapping[str, Any]:
    """Run one metric on the thread and return the engine's answer."""
    future = asyncio.run_coroutine_threadsafe(
        _score_on_thread(job, llm, setup, seconds), _loop_of_thread()
    )
    return await asyncio.wrap_future(future)


async def _score_on_thread(
    job: Mapping[str, object], llm: LLM, setup: str | None, seconds: float
) -> Mapping[str, Any]:
    engine = import_module("llmeval_sdk.plugins.ragas._engine").engine(setup)
    answer: Mapping[str, Any] = await engine.run(job, llm, seconds)
    return answer


def stop_thread() -> None:
    """End the thread and close its clients, for tests."""
    global _loop
    with _lock:
        loop, _loop = _loop, None
    if loop is not None:
        asyncio.run_coroutine_threadsafe(loop.shutdown_asyncgens(), loop).result(5.0)
        loop.call_soon_threadsafe(loop.stop)
        while not loop.is_closed():
            time.sleep(0.001)


def _loop_of_thread() -> asyncio.AbstractEventLoop:
    """Return the thread's loop; the thread has the context of who asked, where tracing is off."""
    global _loop  # noqa: PLW0603
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            context = contextvars.copy_context()
            threading.Thread(
                target=context.run, args=(_serve_loop, _loop), name="llmeval-ragas", daemon=True
            ).start()
        return _loop


def _serve_loop(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


def _after_fork() -> None:
    """Begin anew in a child: the thread lives in the parent only."""
    global _loop, _lock
    _loop, _lock = None, threading.Lock()


after_in_child(_after_fork)


LOCKED = Path(__file__).with_name("locked.txt")
"""Every package with its version and the hashes of its files."""
_IMPORT = "import os; os.environ['RAGAS_DO_NOT_TRACK'] = 'true'; import ragas.metrics.collections"
Tell = Callable[[str, float], None]
"""Is told what goes on, and since how many seconds."""


def make_environment(home: Path, tell: Tell) -> bool:
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
        remove_environment(home)
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


def remove_environment(home: Path) -> bool:
    """Delete an environment that `make_environment` made, and nothing else.

    Returns False where there is none.
    """
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


def findings(
    settings: Settings, *, offline: bool = False
) -> Iterator[tuple[bool | None, str, str]]:
    """Say where Ragas runs and whether it can."""
    if any(name.startswith("ragas") for name in settings.evaluators):
        yield _where(settings)
