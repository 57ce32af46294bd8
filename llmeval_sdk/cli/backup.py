"""``llmeval backup``: a copy of the store and of all that lies beside it, made while apps write.

The copy is a folder that is made under another name in the same place and renamed once all of it
is there and was checked. So a folder under the name that was asked for is always a whole backup.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from llmeval_sdk import config
from llmeval_sdk.cli.options import Help, add_json, add_store
from llmeval_sdk.cli.output import columns, say_json, say_wrapped, tracked
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.process import private
from llmeval_sdk.store.connection import connect
from llmeval_sdk.store.files import Unusable, open_read_only, path_of
from llmeval_sdk.store.state import LEDGER, STATE, ledger_path, open_state_read_only, state_path
from llmeval_sdk.text.terminal import megabytes, plural, printable


_EPILOG = """\
example:
  llmeval backup /backups/$(date +%F)
  llmeval report --store /backups/2026-11-30/llmeval.db

The backup is a folder with the store, the store of offline runs, the ledger of budgets,
the file of state (sessions, calibrations, alarms, cached verdicts),
data sets and reports. Apps may go on writing: each database is copied as it stands at
one moment, and checked. Records that wait in the spool are not in it, nor is the key of
this machine that signs cached verdicts.
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "backup",
        help="copy the store and all that lies beside it, while apps write",
        description="Copy the store, both files of state, data sets and reports into a new folder.",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    parser.add_argument(
        "destination", metavar="DESTINATION", help="the folder to make; it must not exist yet"
    )
    add_store(parser)
    parser.add_argument(
        "--databases-only", action="store_true", help="leave out data sets and reports"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make the backup, and say what it holds and how it is restored."""
    store = path_of(args.store or config.from_environment(problems=[]).store)
    target = private.absolute(args.destination)
    place = printable(str(target), 500)
    try:
        sizes = _whole_folder(store, target, with_files=not args.databases_only)
    except (OSError, sqlite3.Error, ValueError) as error:
        raise ConfigurationError(f"{place}: the backup cannot be written: {error}") from None
    size = sum(sizes.values())
    if args.json:
        say_json({"destination": str(target), "store": str(store), "bytes": size, "files": sizes})
    else:
        say_wrapped(f"{place}: backed up {plural(len(sizes), 'file')}, {megabytes(size)}")
        columns([[f"  {name}", megabytes(of)] for name, of in sizes.items() if "/" not in name])
        say_wrapped(
            f"To restore it, stop the app, move {printable(str(store.parent), 500)} away, and copy"
            f" {place} in its place."
        )
    return 0


def _whole_folder(store: Path, target: Path, *, with_files: bool) -> dict[str, int]:
    """Copy everything into a new folder, and return the size of each file by its name.

    The folder gets its name when it is complete, so that a part of a backup never has it.

    Raises `ConfigurationError`, ``OSError`` and ``sqlite3.Error``, and then leaves nothing.
    """
    from llmeval_sdk.offline.run.experiment import store_of_experiments

    beside = [store.with_name(name) for name in ("datasets", "reports")]
    if os.path.lexists(target) or any(folder in target.parents for folder in beside):
        raise FileExistsError("it is there already, or lies in a folder that is copied")
    databases = [
        path
        for path in (store, store_of_experiments(store), ledger_path(store), state_path(store))
        if path.exists()
    ]
    if not databases:
        raise ConfigurationError(
            f"there is no store {printable(str(store), 500)} and nothing beside it: name the"
            " store by --store, or set LLMEVAL_STORE"
        )
    files = [path for folder in beside if with_files for path in _plain_files(folder)]
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    partial.mkdir(mode=0o700, parents=True)
    try:
        for path in tracked([*databases, *files], total=len(databases + files), what="Copying"):
            copy = partial / path.relative_to(store.parent)
            private.make_folder(copy.parent)
            private.make_file(copy)
            if path in databases:
                _copy_database(path, copy)
            else:
                shutil.copyfile(path, copy)
        sizes = {
            path.relative_to(partial).as_posix(): path.stat().st_size
            for path in _plain_files(partial)
        }
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return sizes


def _plain_files(folder: Path) -> list[Path]:
    """Return the plain files below a folder; links lead anywhere, and pipes have no end."""
    paths = (Path(place, name) for place, _, names in os.walk(folder) for name in sorted(names))
    return [path for path in paths if stat.S_ISREG(path.lstat().st_mode)]


def _copy_database(path: Path, target: Path) -> None:
    """Copy a database as it stands now, and check the copy.

    Raises `ConfigurationError` where it cannot be read or is damaged.
    """
    schema = {".ledger": LEDGER, ".state": STATE}.get(path.suffix)
    try:
        source = open_state_read_only(path, schema) if schema else open_read_only(path)
        if source is None:  # it holds nothing yet
            return
        with closing(source), closing(connect(target, isolation_level=None)) as copy:
            source.backup(copy)  # all pages in one step, which no write of an app interrupts
            # WAL mode came with the copy, and would need two more files beside it to be read.
            copy.execute("PRAGMA journal_mode = DELETE").fetchall()
            (state,) = copy.execute("PRAGMA quick_check(1)").fetchone()
    except (Unusable, sqlite3.Error) as error:
        state = str(error)
    if state != "ok":
        raise ConfigurationError(f"{printable(str(path), 500)} cannot be copied: {state}")
