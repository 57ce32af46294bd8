"""``llmeval ragas setup``: give Ragas an environment of its own, or take it away."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TextIO

from llmeval_sdk.cli import Commands
from llmeval_sdk.cli.options import add_json
from llmeval_sdk.cli.output import say_json
from llmeval_sdk.process import private


def add(subparsers: Commands) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "ragas", help="give Ragas an environment of its own", allow_abbrev=False
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    setup = actions.add_parser(
        "setup",
        help="create the environment (about 800 MB) with the versions that are tested",
        allow_abbrev=False,
    )
    setup.add_argument(
        "--dir", type=Path, help="the folder of the environment (default: ~/.llmeval/ragas)"
    )
    setup.add_argument("--remove", action="store_true", help="delete the environment instead")
    add_json(setup)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make or remove the environment; both may be repeated."""
    from llmeval_sdk.plugins.ragas.runner import (
        default_home,
        make_environment,
        python_in,
        remove_environment,
    )

    home = private.expanded(args.dir or default_home()).absolute()
    if args.remove:
        gone = remove_environment(home)
        if args.json:
            say_json({"folder": str(home), "removed": gone})
            return 0
        sys.stdout.write(f"removed {home}\n" if gone else f"there is no {home}\n")
        return 0
    made = make_environment(home, _ProgressLine(sys.stderr if args.json else sys.stdout))
    if args.json:
        say_json({"folder": str(home), "made": made, "python": str(python_in(home))})
        return 0
    sys.stdout.write(f"{'ready' if made else 'ready already'}: {home}\n")
    if args.dir:
        sys.stdout.write(f"export LLMEVAL_RAGAS_PYTHON={python_in(home)}\n")
    return 0


class _ProgressLine:
    """Writes a line that changes on a terminal, else a line for each step and ten seconds."""

    def __init__(self, to: TextIO) -> None:
        self._to, self._last = to, ("", 0.0)

    def __call__(self, what: str, seconds: float) -> None:
        step, told = self._last
        new = what.partition(":")[0] != step
        every = 0.5 if self._to.isatty() else 10.0
        if not new and seconds - told < every:
            return
        self._last = (what.partition(":")[0], seconds)
        line = f"{what} ({seconds:.0f} s)" if seconds >= 1 else f"{what} …"
        if self._to.isatty():
            self._to.write(("\n" if new and step else "\r\x1b[K") + line)
        else:
            self._to.write(line + "\n")
        self._to.flush()
