"""The command ``llmeval``, also ``python -m llmeval_sdk``.

A subcommand is one module with ``add(subparsers)`` and ``run(args)``: of this package, with one
word in `_COMMANDS`, or of a plugin, with one line in its table of commands. The module of a word
that is one of Python's has an underscore after it. Exit codes are 0 for success, 1 for a finding
(something was not found, or is broken), and 2 for a command that could not run.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from keyword import iskeyword
from typing import TypeAlias

from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError, LlmevalError
from llmeval_sdk.process.escaping import escaped


Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""Where a command adds its parser."""

_COMMANDS = (
    "run",
    "agent",
    "view",
    "report",
    "compare",
    "label",
    "traces",
    "dataset",
    "evaluate",
    "explain",
    "export",
    "import",
    "prune",
    "backup",
    "accept",
    "judges",
    "doctor",
)
_DAILY = (
    "run", "view", "report", "traces", "explain", "compare", "label", "judges", "evaluate",
    "dataset", "watch", "doctor",
)  # fmt: skip
"""The commands that ``--help`` shows: to record, to look, to label, to test, to be told."""
_REMOVED = {"agreement": ("judges",), "calibrate": ("judges", "--calibrate")}
"""Commands of before, and what to write in the place of each."""

OK, FINDING, USAGE = 0, 1, 2


def commands() -> tuple[str, ...]:
    """Return the names of all commands: those of this package, then those of plugins."""
    return (*_COMMANDS, *registry.table("commands"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status of the process."""
    argv = sys.argv[1:] if argv is None else argv
    parser = _parser_for(argv)
    if any("\0" in word for word in argv):
        parser.error("an argument holds the character NUL, which no text or file name may have")
    args, rest = parser.parse_known_args(argv)
    if rest and not hasattr(args, "rest"):
        where = f"`llmeval {args.command} --help` lists the options"
        parser.error(f"unrecognized arguments: {' '.join(rest)}; {where}")
    args.rest = rest
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `llmeval report | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return OK
    except (LlmevalError, OSError) as error:  # a full disk, a name that is too long for a file
        sys.stderr.write(f"llmeval {args.command}: {escaped(str(error))}\n")
        return USAGE
    except UnicodeEncodeError:
        if (word := _no_utf8(argv)) is None:
            raise
        sys.stderr.write(f"llmeval {args.command}: the argument {word!r:.80} is not UTF-8\n")
        return USAGE
    return code


def _parser_for(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Make the parser of what was asked for: its modules take a tenth of a second if they are all.

    It ends the process for a command of before, with the one to write in its place.
    """
    name = argv[0] if argv else ""
    wanted = [name] if name in _COMMANDS or name in commands() else None
    if name in ("-h", "--help") and "--all" not in argv:
        wanted = [each for each in commands() if each in _DAILY]
    parser = _parser(wanted)
    if name in _REMOVED:
        instead = shlex.join(("llmeval", *_REMOVED[name], *argv[1:]))
        parser.error(f"`llmeval {name}` is now part of `llmeval judges`: {escaped(instead)}")
    return parser


def _no_utf8(argv: Sequence[str]) -> str | None:
    """Return the first argument that is no text: Python gives its odd bytes as half characters.

    A file may have such a name all the same, so nothing is refused before it fails.
    """
    for word in argv:
        try:
            word.encode()
        except UnicodeEncodeError:
            return word
    return None


class _ShowVersion(argparse.Action):
    """Shows the version, which takes as long to look up as a small command does."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        import llmeval_sdk

        sys.stdout.write(f"llmeval {llmeval_sdk.__version__}\n")
        parser.exit()


def _parser(wanted: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Make the parser of all commands, or of some: the one that is run, or those to show."""
    parser = argparse.ArgumentParser(
        prog="llmeval",
        description="Look at the traces and scores of an app, and evaluate data sets.",
        epilog="Exit codes: 0 success, 1 a finding such as a failed gate, 2 the command "
        "could not run.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and exit")
    parser.add_argument("--all", action="store_true", help="with --help: show every command")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND [OPTIONS]", required=True)
    for name in commands() if wanted is None else wanted:
        own = f"{__name__}.{name}{'_' * iskeyword(name)}:add"
        try:
            add = registry.load(own if name in _COMMANDS else registry.table("commands")[name])
        except ConfigurationError as error:
            if wanted == [name]:
                parser.error(escaped(str(error)))
            continue  # this is for the list of all commands, which has the others
        add(subparsers)
    return parser
