"""``llmeval backup``: a copy of the store and of all that lies beside it, made while apps write.

The copy is a folder that is made under another name in the same place and renamed once all of it
is there and was checked. So a folder under the name that was asked for is always a whole backup.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from llmeval_sdk import config
from llmeval_sdk.cli.options import Help, add_json, add_store
from llmeval_sdk.cli.output import advancing, columns, say_json, say_wrapped
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.process import private
from llmeval_sdk.process.reading import read_file
from llmeval_sdk.store.connection import connect
from llmeval_sdk.store.files import Unusable, open_read_only, path_of
from llmeval_sdk.store.state import LEDGER, STATE, ledger_path, open_state_read_only, state_path
from llmeval_sdk.text.terminal import megabytes, plural, printable


MARK = "backup.json"
"""The file by which a folder is known as a backup, and may be replaced by another one."""
FORMAT = 1
PAGES = 256
"""Pages of a database that are copied between two looks at the progress bar."""
CHUNK_BYTES = 1 << 20
STALE_SECONDS = 86_400.0
"""The age from which on an unfinished copy is taken for one of a process that was killed."""
PARTIAL, FORMER = ".partial", ".former"
"""Endings of a copy that is being made, and of the backup whose name it takes."""
FOLDERS = ("datasets", "reports")

Advance = Callable[[int], object]
Opener = Callable[[Path], sqlite3.Connection | None]

_EPILOG = """\
example:
  llmeval backup /backups/$(date +%F)
  llmeval backup /backups/latest --force
  llmeval report --store /backups/latest/llmeval.db

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
        "--force", action="store_true", help="replace an earlier backup of that name"
    )
    parser.add_argument(
        "--databases-only", action="store_true", help="leave out data sets and reports"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make the backup, and say what it holds and how it is restored."""
    store = path_of(args.store or config.from_environment(problems=[]).store)
    databases, files = _databases(store), [] if args.databases_only else _files(store)
    if not databases:
        raise ConfigurationError(
            f"there is no store {printable(str(store), 500)} and nothing beside it: name the"
            " store by --store, or set LLMEVAL_STORE"
        )
    try:
        target = private.expanded(args.destination).absolute()
        _check(target, store, force=args.force)
        target.parent.mkdir(parents=True, exist_ok=True)
        with _whole_folder(target) as folder:
            _check_room(folder, databases, files)
            sizes = _copy_all(store, databases, files, folder)
    except ConfigurationError:
        raise
    except (OSError, sqlite3.Error, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        place = printable(args.destination, 500)
        raise ConfigurationError(f"{place}: the backup cannot be written: {why}") from None
    _say(args, store, target, sizes)
    return 0


def _databases(store: Path) -> Mapping[Path, Opener]:
    """Return the databases that there are, each with what opens it to be read."""
    from llmeval_sdk.offline.run.experiment import store_of_experiments

    known: Mapping[Path, Opener] = {
        store: open_read_only,
        store_of_experiments(store): open_read_only,
        ledger_path(store): lambda path: open_state_read_only(path, LEDGER),
        state_path(store): lambda path: open_state_read_only(path, STATE),
    }
    return {path: opener for path, opener in known.items() if path.exists()}


def _files(store: Path) -> list[Path]:
    """Return the plain files of data sets and reports; links lead anywhere, and are left out."""
    found = []
    for name in FOLDERS:
        for folder, _, names in os.walk(store.with_name(name)):
            found += [Path(folder, each) for each in sorted(names)]
    return [path for path in found if _size(path) is not None]


def _size(path: Path) -> int | None:
    """Return the size of a plain file; ``None`` for anything else."""
    with suppress(OSError):
        about = path.lstat()
        return about.st_size if stat.S_ISREG(about.st_mode) else None
    return None


def _check(target: Path, store: Path, *, force: bool) -> None:
    """Refuse a destination that a backup must not take; raises `ConfigurationError`."""
    place = printable(str(target), 500)
    for name in FOLDERS:
        if store.with_name(name) in (target, *target.parents):
            raise ConfigurationError(f"{place} lies in a folder that is copied: name another one")
    if not os.path.lexists(target):
        return
    if store.parent.resolve().is_relative_to(target.resolve()):
        raise ConfigurationError(f"{place} holds the store, and so is no backup: name another one")
    is_backup = _is_backup(target)
    if force and not is_backup:
        raise ConfigurationError(f"{place} is no backup, so --force does not replace it")
    if not force:
        also = ", or pass --force to replace that backup" if is_backup else ""
        raise ConfigurationError(f"{place} exists already: name another folder{also}")


def _is_backup(folder: Path) -> bool:
    """Say whether a folder has the mark that `_copy_all` writes at its end."""
    if folder.is_symlink() or _size(folder / MARK) is None:
        return False
    try:
        about = json.loads(read_file(folder / MARK))
    except (OSError, ValueError, RecursionError):
        return False
    return (
        isinstance(about, dict)
        and about.get("format") == FORMAT
        and isinstance(about.get("files"), dict)
    )


@contextmanager
def _whole_folder(target: Path) -> Iterator[Path]:
    """Lend a new folder that takes the name of the target once the block has ended well."""
    beside = f".{target.name}"[:200]
    token = secrets.token_hex(4)
    folder = target.with_name(f"{beside}.{token}{PARTIAL}")
    former = target.with_name(f"{beside}.{token}{FORMER}")
    folder.mkdir(mode=0o700)
    try:
        folder.chmod(0o700)
        yield folder
        try:
            if os.path.lexists(target):
                target.rename(former)
            folder.rename(target)
        except BaseException:  # Ctrl-C too
            if former.exists() and not os.path.lexists(target):
                former.rename(target)
            raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if os.path.lexists(target):
            shutil.rmtree(former, ignore_errors=True)
    _clear(target.parent, beside)


def _clear(parent: Path, beside: str) -> None:
    """Delete what killed processes left, now that a whole backup has the name."""
    for stale in parent.glob(f"{_literal(beside)}.*"):
        with suppress(OSError):
            is_old = time.time() - stale.lstat().st_mtime > STALE_SECONDS
            if is_old and stale.suffix in (PARTIAL, FORMER):
                shutil.rmtree(stale)


def _literal(text: str) -> str:
    """Write a text so that ``glob`` takes none of its characters for a pattern."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)


def _check_room(folder: Path, databases: Mapping[Path, Opener], files: list[Path]) -> None:
    """Say at once that a disk is too full, and not after minutes; raises ``OSError``."""
    needed = sum(_size(path) or 0 for path in (*databases, *files))
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(f"it takes {megabytes(needed)}, and {megabytes(free)} are free there")


def _copy_all(
    store: Path,
    databases: Mapping[Path, Opener],
    files: list[Path],
    folder: Path,
) -> dict[str, int]:
    """Copy everything into a folder; return the sizes by name."""
    sizes: dict[str, int] = {}
    total = sum(_size(path) or 0 for path in (*databases, *files))
    with advancing("Copying", total) as advance:
        for path, opener in databases.items():
            try:
                if (size := _copy_database(path, opener, folder / path.name, advance)) is not None:
                    sizes[path.name] = size
            except Unusable as error:
                raise ConfigurationError(
                    f"{printable(str(path), 500)} cannot be copied: {error}"
                ) from None
        for path in files:
            name = path.relative_to(store.parent)
            if (size := _copy_file(path, folder / name, advance)) is not None:
                sizes[name.as_posix()] = size
    about = {"format": FORMAT, "made": time.time(), "store": str(store), "files": sizes}
    private.make_file(folder / MARK)
    (folder / MARK).write_text(json.dumps(about, indent=1) + "\n", "utf-8")
    return sizes


def _copy_database(
    path: Path,
    opener: Opener,
    target: Path,
    advance: Advance,
) -> int | None:
    """Copy a database as it stands now, and check the copy; ``None`` where it holds nothing yet.

    Raises `Unusable` where the database cannot be read or is damaged.
    """
    with ExitStack() as stack:
        source = opener(path)
        if source is None:
            return None
        stack.enter_context(closing(source))
        private.make_file(target)
        copy = stack.enter_context(closing(connect(target, isolation_level=None)))
        copied = 0

        def progressed(_status: int, left: int, total: int) -> None:
            nonlocal copied
            advance((total - left - copied) * page)
            copied = total - left

        try:
            # A read transaction holds this moment: else each write of an app would begin it anew.
            source.execute("BEGIN")
            page = int(source.execute("PRAGMA page_size").fetchone()[0])
            source.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        except sqlite3.Error as error:
            raise Unusable(str(error)) from None
        source.backup(copy, pages=PAGES, progress=progressed)
        # WAL mode came with the copy, and would need two more files beside it to be read.
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()
        _verify(copy)
    return target.stat().st_size


def _verify(copy: sqlite3.Connection) -> None:
    """Raise `Unusable` for a damaged copy."""
    try:
        (found,) = copy.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        found = str(error)
    if found != "ok":
        raise Unusable(f"it is damaged ({found})")


def _copy_file(path: Path, target: Path, advance: Advance) -> int | None:
    """Copy a plain file; ``None`` where it is gone, or something else stands there by now."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as source:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        private.make_folder(target.parent)
        private.make_file(target)
        size = 0
        with target.open("wb") as copy:
            while chunk := source.read(CHUNK_BYTES):
                copy.write(chunk)
                size += len(chunk)
                advance(len(chunk))
    return size


def _say(args: argparse.Namespace, store: Path, target: Path, sizes: dict[str, int]) -> None:
    total = sum(sizes.values())
    if args.json:
        say_json({"destination": str(target), "store": str(store), "bytes": total, "files": sizes})
        return
    shown = {name: size for name, size in sizes.items() if "/" not in name}
    rows = [[f"  {name}", megabytes(size)] for name, size in shown.items()]
    for folder in FOLDERS:
        inside = [size for name, size in sizes.items() if name.startswith(f"{folder}/")]
        if inside:
            rows.append([f"  {folder}: {plural(len(inside), 'file')}", megabytes(sum(inside))])
    place = printable(str(target), 500)
    say_wrapped(f"{place}: backed up {megabytes(total)}")
    columns(rows)
    if store.name in sizes:
        look = f"llmeval report --store {printable(str(target / store.name), 500)}"
        say_wrapped(f"To look into it: {look}")
    say_wrapped(
        f"To restore it, stop the app, move {printable(str(store.parent), 500)} away, and copy"
        f" {place} in its place."
    )
