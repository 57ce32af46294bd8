"""``llmeval run COMMAND…``: run a Python program with the SDK set up from the environment."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import llmeval_sdk
from llmeval_sdk.cli import Commands


_BOOTSTRAP = Path(llmeval_sdk.__file__).resolve().parent / "cli" / "_bootstrap"
_USAGE = """usage: llmeval run COMMAND [ARGUMENT ...]

Run a Python program, such as `python driver.py`, `gunicorn app:app` or
`ddtrace-run python app.py`, with the SDK set up from the environment in it and
in the Python processes it starts. Interpreters that ignore PYTHONPATH
(`python -I`, `-E`) are left as they are.
"""


def add(subparsers: Commands) -> None:
    """Declare the command; all its arguments are the program's."""
    parser = subparsers.add_parser(
        "run",
        help="run a program with the SDK set up from the environment",
        add_help=False,
        prefix_chars="\0",  # so that options are passed on
    )
    parser.set_defaults(run=run, rest=[])


def run(args: argparse.Namespace) -> int:
    """Become the program; where that fails, say why."""
    command = args.rest[1:] if args.rest[:1] == ["--"] else args.rest
    if not command or command[0] in ("-h", "--help"):
        sys.stdout.write(_USAGE)
        return 0 if command else 2
    paths = [str(_BOOTSTRAP)]
    if os.environ.get("PYTHONPATH"):  # noqa: TID251 - the program's environment, not ours
        paths.append(os.environ["PYTHONPATH"])  # noqa: TID251
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}  # noqa: TID251
    try:
        if os.name == "nt":  # there, to become another program returns to the shell at once
            return subprocess.call(command, env=environment)  # noqa: S603 - the user's command
        sys.stdout.flush()
        os.execvpe(command[0], command, environment)  # noqa: S606
    except OSError as error:
        sys.stderr.write(f"llmeval run: {command[0]}: {error.strerror}\n")
        return 2
