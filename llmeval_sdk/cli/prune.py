"""``llmeval prune``: delete the oldest traces of a store, by age or size."""

from __future__ import annotations

import argparse
import re
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

from llmeval_sdk import config
from llmeval_sdk._terminal import plural
from llmeval_sdk.cli._options import Help, add_json, add_store, open_store
from llmeval_sdk.cli._output import say_json, say_wrapped
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.store import dump
from llmeval_sdk.store.files import Unusable
from llmeval_sdk.store.forgetting import Forgotten, forget, traces_of
from llmeval_sdk.store.typed_ids import UNREADABLE, forms, unreadable
from llmeval_sdk.store.writer import StoreWriter


_UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}

_EPILOG = """\
example:
  llmeval prune --max-days 7 --dry-run
  llmeval prune --max-size 500MB
  llmeval prune --user user-17

The oldest traces are deleted first, each as a whole: its spans, scores, feedback and
the judges that did not run. An app prunes its own store while it writes. This command is
for a store whose app is gone, or that has to be smaller now.
"""


def add(subparsers: Any) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "prune",
        help="delete the oldest traces of a store, by age or size",
        description="Delete the oldest traces of a store until it is within its bounds.",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    add_store(parser)
    parser.add_argument(
        "--max-days",
        type=_days,
        metavar="N",
        help="delete traces older than N days (default: LLMEVAL_STORE_MAX_DAYS, else 30)",
    )
    parser.add_argument(
        "--max-size",
        type=_size,
        metavar="SIZE",
        help="delete until the store is no larger, such as 500MB or 2GiB (default: "
        "LLMEVAL_STORE_MAX_BYTES, else 1GiB)",
    )
    parser.add_argument(
        "--user",
        metavar="ID",
        help="delete all traces of this user (user_id) at once, however old, and nothing else",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be deleted, and delete nothing"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prune the store, and say what became of it."""
    settings = config.from_environment(problems=[])
    days = settings.store_max_days if args.max_days is None else args.max_days
    size = settings.store_max_bytes if args.max_size is None else args.max_size
    if args.user is not None:
        return _forget(args)
    with open_store(args.store) as reader:
        path = Path(reader.location)
        oldest = dump.Selection(until=time.time_ns() - int(days * 86_400e9))
        too_old, spans = dump.count(reader, oldest), reader.counts().spans
    before = _on_disk(path)
    about: dict[str, Any] = {
        "store": str(path), "dry_run": args.dry_run, "spans": spans, "too_old": too_old,
        "removed": 0, "bytes_before": before, "bytes_now": before,
    }  # fmt: skip
    if args.dry_run:
        if args.json:
            say_json(about)
            return 0
        over = f", {_megabytes(before - size)} over --max-size" if before > size else ""
        some = f"{too_old:,} of {plural(spans, 'span')}"
        say_wrapped(f"{path}: older than {days:g} days: {some}{over}")
        return 0
    writer = StoreWriter(path, size, days)
    try:
        while writer.prune():
            pass  # each call stops after a moment, so that an app gets its turn to write
        writer.settle()
    finally:
        writer.close()
    with open_store(str(path)) as reader:
        left = reader.counts().spans
    if args.json:
        say_json({**about, "removed": spans - left, "bytes_now": _on_disk(path)})
        return 0
    say_wrapped(
        f"{path}: {spans - left:,} of {plural(spans, 'span')} went;"
        f" {_megabytes(before)} before, {_megabytes(_on_disk(path))} now"
    )
    return 0


def _forget(args: argparse.Namespace) -> int:
    """Delete what belongs to a user, and say what is not this command's business.

    Return 1 where the store may hold more of the user under hashes whose key is missing.
    """
    users = forms(args.user)
    with open_store(args.store) as reader:
        path = Path(reader.location)
        found = _sum(reader.read(lambda store: [traces_of(store, user) for user in users]))
        hidden = reader.read(lambda store: unreadable(store, args.user))
    if hidden and not found.spans:
        raise ConfigurationError(f"nothing was found by the id as it is, but {UNREADABLE}")
    code = 1 if hidden else 0
    if hidden:
        sys.stderr.write(f"llmeval prune: this is perhaps not all of that user: {UNREADABLE}\n")
    about = {"store": str(path), "dry_run": args.dry_run, "traces": found.traces}
    if args.dry_run and args.json:
        say_json({**about, "spans": found.spans, "removed": 0})
        return code
    if args.dry_run:
        is_are = "is" if found.traces == 1 else "are"
        say_wrapped(f"{path}: {_what(found)} {is_are} of that user")
        return code
    try:
        gone = _sum([forget(path, user) for user in users])
    except (OSError, sqlite3.Error, Unusable) as error:
        raise ConfigurationError(f"{path} cannot be written: {error}") from None
    if args.json:
        say_json({**about, "spans": found.spans, "removed": gone.spans})
        return code
    if not gone.spans:
        say_wrapped(f"{path}: no span of that user, neither by the id nor by a hash of it")
    else:
        say_wrapped(f"{path}: {_what(gone)} of that user went")
    say_wrapped(
        "What was sent to Datadog, to an OpenTelemetry backend or elsewhere is still there: this"
        " command deletes from the local store only. Open sessions are kept in a file of their own"
        " (and in Redis, with LLMEVAL_SHARED) until they are evaluated, and golden sets keep their"
        " rows: see `llmeval dataset remove`."
    )
    return code


def _what(amount: Forgotten) -> str:
    return f"{plural(amount.traces, 'trace')} with {plural(amount.spans, 'span')}"


def _sum(parts: list[Forgotten]) -> Forgotten:
    """Add up what was found under the id and under its hash."""
    return Forgotten(sum(part.traces for part in parts), sum(part.spans for part in parts))


def _on_disk(path: Path) -> int:
    """Return the size of a store with its log."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(each.stat().st_size for each in files if each.exists())


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0 < days < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days above 0")
    return days


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]i?b)?", text.strip().lower())
    if not found or not float(found[1]):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a size: expected 500MB, 2GiB or a number of bytes"
        )
    return int(float(found[1]) * _UNITS[found[2] or ""])


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
