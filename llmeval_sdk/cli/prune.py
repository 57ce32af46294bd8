"""``llmeval prune``: delete the oldest traces of a store, by age or size."""

from __future__ import annotations

import argparse
import re
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from llmeval_sdk import config, registry
from llmeval_sdk.cli.options import (
    Help,
    add_json,
    add_store,
    add_where,
    open_store,
)
from llmeval_sdk.cli.output import say_json, say_wrapped
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.store import dump
from llmeval_sdk.store.files import Unusable, path_of
from llmeval_sdk.store.forgetting import (
    belongings_of,
    belongings_of_traces,
    expire_in_state,
    forget,
    forget_in_state,
    reset_in_state,
)
from llmeval_sdk.store.identities import UNREADABLE, forms, unreadable
from llmeval_sdk.store.state import (
    Belongings,
    StateTables,
    oldest_ns,
    state_path,
)
from llmeval_sdk.store.writer import StoreWriter
from llmeval_sdk.text.terminal import megabytes, plural, printable


if TYPE_CHECKING:
    from llmeval_sdk.offline.forgetting import LeftReports


_UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}

_EPILOG = """\
example:
  llmeval prune --max-days 7 --dry-run
  llmeval prune --max-size 500MB
  llmeval prune --user user-17
  llmeval prune --where tag:tenant=acme --dry-run
  llmeval prune --reset cached

The oldest traces are deleted first, each as a whole: its spans, scores, feedback and
the judges that did not run. The file of state beside the store loses what is as old.
An app prunes its own store while it writes. This command is for a store whose app is
gone, or that has to be smaller now.
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
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
        help="delete all traces of this user (user_id) at once, however old, what judges said of "
        "them, and what the files beside the store have of them",
    )
    add_where(parser)
    parser.add_argument(
        "--reset",
        choices=sorted(registry.table("state")),
        help="delete all of one thing that the file of state beside the store keeps, so that it"
        " begins anew",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be deleted, and delete nothing"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Delete what the options name."""
    if args.user is not None and args.where:
        raise ConfigurationError("--user and --where: give one of them, such as --where user=ID")
    if args.user is not None:
        return _forget(args)
    if args.where:
        return _prune_selected(args)
    return _prune(args) if args.reset is None else _reset(args)


def _prune(args: argparse.Namespace) -> int:
    """Prune the store to its bounds, and say what became of it."""
    settings = config.from_environment(problems=[])
    days = settings.store_max_days if args.max_days is None else args.max_days
    size = settings.store_max_bytes if args.max_size is None else args.max_size
    with open_store(args.store) as reader:
        path = Path(reader.location)
        oldest = dump.DumpScope(until=oldest_ns(days))
        too_old, spans = dump.count(reader, oldest), reader.counts().spans
    before = _on_disk(path)
    about: dict[str, object] = {
        "store": str(path), "dry_run": args.dry_run, "spans": spans, "too_old": too_old,
        "removed": 0, "expired": 0, "bytes_before": before, "bytes_now": before,
    }  # fmt: skip
    if args.dry_run:
        expired = _expire(path, days, really=False)
        if args.json:
            say_json({**about, "expired": expired})
            return 0
        over = f", {megabytes(before - size)} over --max-size" if before > size else ""
        some = f"{too_old:,} of {plural(spans, 'span')}"
        bound = f"older than {days:g} days" if days else "too old (no bound of days is set)"
        say_wrapped(f"{path}: {bound}: {some}{over}")
        _say_expired(path, expired, "would go")
        return 0
    writer = StoreWriter(path, size, days)
    try:
        while writer.prune():
            pass  # each call stops after a moment, so that an app gets its turn to write
        while writer.shrink():
            pass
        writer.settle()
    finally:
        writer.close()
    expired = _expire(path, days, really=True)
    with open_store(str(path)) as reader:
        left = reader.counts().spans
    if args.json:
        say_json(
            {**about, "removed": spans - left, "expired": expired, "bytes_now": _on_disk(path)}
        )
        return 0
    say_wrapped(
        f"{path}: {spans - left:,} of {plural(spans, 'span')} went;"
        f" {megabytes(before)} before, {megabytes(_on_disk(path))} now"
    )
    _say_expired(path, expired, "went")
    return 0


def _expire(path: Path, days: float, *, really: bool) -> int:
    """Delete from the file of state beside a store what is too old; return how many rows."""
    state = state_path(path)
    try:
        return expire_in_state(state, oldest_ns(days), _state_tables(), really=really)
    except (OSError, sqlite3.Error, Unusable) as error:
        raise ConfigurationError(f"{state} cannot be pruned: {error}") from None


def _say_expired(path: Path, expired: int, went: str) -> None:
    if expired:
        rows = plural(expired, "old session or cached verdict")
        say_wrapped(f"{state_path(path)}: {rows} {went}")


_NOUNS = {
    "golden_rows": "row of golden sets",
    "experiments": "trace of experiments",
}
"""What lies beside the store of a user, apart from the file of state, by its name in JSON."""


def _reset(args: argparse.Namespace) -> int:
    """Delete all that the file of state keeps of one thing; return 1 where there was nothing."""
    path = state_path(args.store or config.from_environment(problems=[]).store)
    tables = {args.reset: _state_tables()[args.reset]}
    try:
        (count,) = reset_in_state(path, tables, really=not args.dry_run).values()
    except (OSError, sqlite3.Error, Unusable) as error:
        raise ConfigurationError(f"{path} cannot be written: {error}") from None
    if args.json:
        say_json({"state": str(path), "dry_run": args.dry_run, args.reset: count})
    else:
        went = "would go" if args.dry_run else "went"
        say_wrapped(f"{path}: {plural(count, 'row')} of {args.reset!r} {went}")
    return 0 if count else 1


def _state_tables() -> dict[str, StateTables]:
    """Return all that the file of state keeps, that of plugins included."""
    return {name: registry.load(address) for name, address in registry.table("state").items()}


_UNTIED = (
    "Copies of a trace that this store no longer has cannot be tied to a user: rows of golden sets"
    " and of experiments, cached verdicts, and sets in another folder"
    " (`llmeval dataset show`)."
)


def _forget(args: argparse.Namespace) -> int:
    """Delete what belongs to a user here, and say what is not this command's business.

    Return 1 where nothing was found, or where the store may hold more of the user under hashes
    whose key is missing.
    """
    path = path_of(args.store or config.from_environment(problems=[]).store)
    users, has_store = forms(args.user), path.exists() or not state_path(path).exists()
    theirs, hidden = _look(args, users) if has_store else (Belongings(users), False)
    if hidden and not theirs.spans:
        raise ConfigurationError(f"nothing was found by the id as it is, but {UNREADABLE}")
    if hidden:
        sys.stderr.write(f"llmeval prune: this is perhaps not all of that user: {UNREADABLE}\n")
    from llmeval_sdk.offline import forgetting

    really, tables = not args.dry_run, _state_tables()
    try:
        beside = {
            **forget_in_state(state_path(path), theirs, tables, really=really),
            "golden_rows": forgetting.forget_rows(path, theirs, really=really),
            "experiments": forgetting.forget_experiments(path, theirs, really=really),
        }
        reports = forgetting.reports_left(path, theirs)
        if has_store and really:
            forget(path, theirs)
    except (OSError, sqlite3.Error, Unusable) as error:
        raise ConfigurationError(f"what is beside {path} cannot be written: {error}") from None
    found = bool(theirs.spans or any(beside.values()))
    if args.json:
        removed = 0 if args.dry_run else len(theirs.spans)
        amounts = {
            "traces": len(theirs.traces), "spans": len(theirs.spans),
            "judge_traces": len(theirs.judge_traces), "removed": removed,
        }  # fmt: skip
        left = {"reports_left": reports._asdict()}
        say_json({"store": str(path), "dry_run": args.dry_run, **amounts, **beside, **left})
    elif found:
        _say_what_went(path, theirs if has_store else None, beside, dry_run=args.dry_run)
        _say_reports(path, reports)
    else:
        looked = " and ".join(("the id as it is", *(f"its hash {form}" for form in users[1:])))
        what = "no span has" if has_store else "there is no store, and no open session has"
        say_wrapped(
            f"{path}: {what} user_id {printable(args.user, 80)} (looked for {looked});"
            " nothing was deleted. Where another process writes another store, name it by --store."
        )
        _say_reports(path, reports)
        say_wrapped(_UNTIED)
    return 1 if hidden or not found else 0


def _prune_selected(args: argparse.Namespace) -> int:
    """Delete the requests that a filter selects, however old; return 1 where there are none."""
    with open_store(args.store, args.where) as reader:
        path = Path(reader.location)
        traces = reader.read(lambda c: c.execute("SELECT DISTINCT trace_id FROM spans").fetchall())
    with open_store(str(path)) as reader:
        theirs = reader.read(lambda c: belongings_of_traces(c, (trace for (trace,) in traces)))
    really = not args.dry_run
    try:
        rows = forget_in_state(state_path(path), theirs, _state_tables(), really=really)
        if really:
            forget(path, theirs)
    except (OSError, sqlite3.Error, Unusable) as error:
        raise ConfigurationError(f"{path} cannot be written: {error}") from None
    went = "went" if really else "would go"
    judges = len(theirs.judge_traces)
    if args.json:
        say_json(
            {
                "store": str(path), "dry_run": args.dry_run, "traces": len(theirs.traces),
                "spans": len(theirs.spans), "judge_traces": judges,
                "removed": len(theirs.spans) if really else 0, **rows,
            }
        )  # fmt: skip
        return 0 if theirs.traces else 1
    some = f"{plural(len(theirs.traces), 'trace')} with {plural(len(theirs.spans), 'span')}"
    also = f" and {plural(judges, 'trace')} of judges that read them" if judges else ""
    say_wrapped(f"{path}: {some}{also} {went}. Rows of golden sets and experiments stay.")
    return 0 if theirs.traces else 1


def _look(args: argparse.Namespace, users: Sequence[str]) -> tuple[Belongings, bool]:
    """Return what the store has of a user, and whether it may have more under other hashes."""
    with open_store(args.store) as reader:
        theirs = reader.read(lambda store: belongings_of(store, users))
        return theirs, reader.read(lambda store: unreadable(store, args.user))


def _say_what_went(
    path: Path, theirs: Belongings | None, beside: Mapping[str, int], *, dry_run: bool
) -> None:
    """Say what was found of a user, in the store if there is one and beside it, and what stays."""
    went = "would go" if dry_run else "went"
    if theirs is None:
        say_wrapped(f"{path}: there is no store; only what lies beside it was looked at")
    else:
        some = f"{plural(len(theirs.traces), 'trace')} with {plural(len(theirs.spans), 'span')}"
        judges = plural(len(theirs.judge_traces), "trace") + " of a judge that read them"
        also = f" and {judges}" if theirs.judge_traces else ""
        say_wrapped(f"{path}: {some} of that user{also} {went}")
    nouns = {**_NOUNS, **{name: each.noun for name, each in _state_tables().items()}}
    for name, number in beside.items():
        if number:
            first, _, rest = nouns[name].partition(" ")
            say_wrapped(f"{plural(number, first)} {rest} {went}")
    say_wrapped(
        "What was sent to Datadog, to an OpenTelemetry backend, to Redis or elsewhere is still"
        " there, and so are reports and exports that were written: this command deletes from the"
        " local store and the files beside it."
    )
    say_wrapped(_UNTIED)


_MOST_NAMED = 20
"""Saved reports that are named; `--json` has all."""


def _say_reports(path: Path, reports: LeftReports) -> None:
    """Name the saved reports beside the store, which nothing was deleted from."""
    folder = printable(str(path.with_name("reports")), 500)
    for names, what in (
        (reports.holding, "hold rows of that user, and stay: delete them yourself"),
        (reports.others, "name no request of that user, but may hold copies of some, and stay"),
    ):
        if names:
            shown = ", ".join(printable(name, 100) for name in names[:_MOST_NAMED])
            more = len(names) - _MOST_NAMED
            also = f" and {more:,} more" if more > 0 else ""
            say_wrapped(f"saved reports in {folder} that {what}: {shown}{also}")


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
    if not found or not 0 < float(found[1]) < 1e18:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a size: expected 500MB, 2GiB or a number of bytes"
        )
    return int(float(found[1]) * _UNITS[found[2] or ""])
