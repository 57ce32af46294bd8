"""Files and folders that hold what users asked: made for their owner alone, and checked before use.

The store, the spool and the ledger of budgets stand where other users of the machine may have put
something first: a folder that all may write to, a file with content of theirs, a link to a file of
the owner's. Nothing of ours is written to such a place, and nothing there is believed. Systems
without user ids (Windows) have no such check; there, folders inherit the rights of their parent.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path


_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
COMPANIONS = ("-wal", "-shm", "-journal")
"""Endings of the files that SQLite keeps beside a database, and reads."""


def expanded(path: str | os.PathLike[str]) -> Path:
    """Return a path with ``~`` expanded.

    For a user without a home, such as the number that a container runs as, it leads to below
    ``/dev/null``, where even root can make nothing: what would be kept at home then goes the way
    that it goes where the home cannot be written to.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(os.devnull, *Path(path).parts[1:])


def absolute(path: str | os.PathLike[str]) -> Path:
    """Return a path from the root, ``~`` expanded.

    It stays relative where the working folder was deleted: whoever opens it gets the system's
    reason, and not whoever only names it.
    """
    plain = expanded(path)
    with suppress(OSError):
        plain = plain.absolute()
    return plain


def make_folder(path: Path) -> bool:
    """Make a folder 0700, and 0700 those above it that are missing; return whether it is new.

    The process's umask does not matter. One that is there is closed again where `reclaim` may.

    Raises:
        OSError: it cannot be made, or one of the names on the way is a file.
    """
    if path.is_dir():
        reclaim(path)
        return False
    if path.parent != path:
        make_folder(path.parent)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{path} is a file, not a directory") from None
        return False  # another process made it meanwhile
    path.chmod(0o700)
    return True


def reclaim(folder: Path) -> None:
    """Close a folder of ours, and our files in it, that the mount of a volume opened to its group.

    Where a Kubernetes pod has an ``fsGroup``, each start of the pod gives all that is on its
    volumes to that group, to read and to write, and sets the bit by which new files inherit it.
    What this user made 0700 and 0600 is made so again: only where that bit is set, the group is one
    of this process's, and nobody else can write. The root of such a volume belongs to somebody
    else, and stays as it is. Never raises.
    """
    if not _has_owners():
        return
    with suppress(OSError):
        about = folder.lstat()
        groups = {os.getegid(), *os.getgroups()}
        if (
            not stat.S_ISDIR(about.st_mode)
            or about.st_uid != os.geteuid()
            or about.st_mode & (stat.S_ISGID | _OTHERS_WRITE) != stat.S_ISGID | stat.S_IWGRP
            or about.st_gid not in groups
        ):
            return
        folder.chmod(0o700)
        for each in folder.iterdir():
            inside = each.lstat()
            if stat.S_ISREG(inside.st_mode) and inside.st_uid == about.st_uid:
                each.chmod(0o600)


def make_file(path: Path) -> bool:
    """Make an empty file 0600, whatever the umask; return whether it is new.

    Raises:
        OSError: it cannot be made.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    try:
        if hasattr(os, "fchmod"):
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    return True


def check_folder(about: os.stat_result, *, shared: bool = False) -> None:
    """Raise PermissionError, with a sentence for people, unless only its owner can write a folder.

    Args:
        about: the folder, by ``lstat`` or ``fstat``.
        shared: a folder such as ``/tmp`` will do too: all may make files in it, but its sticky bit
            lets nobody else remove or replace ours.
    """
    if not _has_owners():
        return
    if stat.S_ISLNK(about.st_mode):
        raise _refusal("its folder is a symbolic link: name the folder it leads to")
    if shared and about.st_mode & stat.S_ISVTX and about.st_uid in (0, os.geteuid()):
        return
    if about.st_mode & _OTHERS_WRITE:
        raise _refusal(
            "other users can write to its folder: give it a folder of its own below, "
            "which is made for you, or take their right away with chmod go-w"
        )
    _check_owner("its folder", about, root_too=True)


def check_file(path: Path, *, reading: bool = False) -> None:
    """Raise OSError, with a sentence for people, unless a file can be trusted.

    It can be where nobody else could have made, replaced or changed it. What SQLite would read
    beside it is checked too; what is not there is no matter.

    Args:
        path: the file.
        reading: the file is only read: then root's are trusted too, and root may read everybody's.
    """
    if not _has_owners():
        return
    for beside in ("", *COMPANIONS):
        try:
            about = path.with_name(path.name + beside).lstat()
        except FileNotFoundError:
            continue
        name = f"the file {path.name}{beside}" if beside else "it"
        if stat.S_ISLNK(about.st_mode):
            raise OSError(errno.ELOOP, f"{name} is a symbolic link: name the file it leads to")
        if about.st_mode & _OTHERS_WRITE and stat.S_ISREG(about.st_mode):
            raise _refusal(f"other users can write to {name}: take their right away, chmod go-w")
        if not (reading and os.geteuid() == 0):
            _check_owner(name, about, root_too=reading)


def _check_owner(what: str, about: os.stat_result, *, root_too: bool) -> None:
    own = os.geteuid()
    if about.st_uid != own and not (root_too and about.st_uid == 0):
        raise _refusal(f"{what} belongs to user {about.st_uid}, and this process runs as {own}")


def _has_owners() -> bool:
    return hasattr(os, "geteuid")


def _refusal(sentence: str) -> PermissionError:
    return PermissionError(errno.EPERM, sentence)


# Replaces small files as a whole, so that a reader never sees half of one.


def replace_text(path: Path, text: str) -> None:
    """Replace a file's content atomically, readable by its owner alone (mode 0600).

    Raises:
        OSError: The file cannot be written, or another user could have made or changed it.
    """
    make_folder(path.parent)
    check_file(path)
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        beside.unlink(missing_ok=True)
        make_file(beside)
        beside.write_text(text, "utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
