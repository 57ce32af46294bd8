"""``llmeval demo``: hand over to the demo app."""

from __future__ import annotations

import argparse
from typing import Any


def add(subparsers: Any) -> None:
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
    from llmeval_sdk.plugins.demo.run import main

    return main(args.rest)
