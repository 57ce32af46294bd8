"""``llmeval demo``: run the app over what is installed, and show what the SDK made of it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.util import find_spec

from llmeval_sdk.cli import Commands
from llmeval_sdk.errors import missing_extra


NEEDED = ("openai",)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; raises `ConfigurationError` where it cannot."""
    options = _parser().parse_args(argv)
    if (absent := next((name for name in NEEDED if find_spec(name) is None), None)) is not None:
        raise missing_extra("the demo", "demo", absent)
    from llmeval_sdk.plugins.demo.session import run

    return run(options)


def _parser() -> argparse.ArgumentParser:
    from llmeval_sdk.plugins.demo.app import FIELDS

    parser = argparse.ArgumentParser(
        prog="llmeval demo",
        description="Extract fields from the README and licence files of the installed Python"
        " distributions, score every answer, escalate the doubtful ones to a judge, and compare"
        " the answers with the metadata headers. Without LLMEVAL_JUDGE_MODEL the judge is a local"
        " stand-in made of rules, which is free and not a model.",
    )
    add = parser.add_argument
    add(
        "--limit",
        type=_count,
        default=60,
        metavar="N",
        help="the most distributions to read (default 60)",
    )
    add("--fields", type=_fields, default=tuple(FIELDS), metavar="A,B", help=", ".join(FIELDS))
    add("--store", metavar="FILE", help="the store (default: LLMEVAL_STORE or .llmeval/llmeval.db)")
    add(
        "--exporters",
        type=_names,
        metavar="A,B",
        help="further exporters for spans and scores; the tables are read from `local`, which is "
        "always on",
    )
    add(
        "--json",
        action="store_true",
        help="print the figures as JSON; the tables go to standard error",
    )
    return parser


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _fields(text: str) -> tuple[str, ...]:
    from llmeval_sdk.plugins.demo.app import FIELDS

    if not (names := _names(text)) or not FIELDS.keys() >= set(names):
        raise argparse.ArgumentTypeError(f"{text!r} is not of {', '.join(FIELDS)}")
    return names


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, not {text!r}")
    return int(text)


def add(subparsers: Commands) -> None:
    """Declare the command; all its arguments are the demo's own."""
    parser = subparsers.add_parser(
        "demo",
        help="run the demo app and look at its scores",
        add_help=False,
        prefix_chars="\0",  # so that even `--` is passed on
    )
    parser.set_defaults(run=run, rest=[])


def run(args: argparse.Namespace) -> int:
    """Run the demo with whatever stands behind ``llmeval demo``."""
    return main(args.rest)
