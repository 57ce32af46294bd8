"""The spool's folder, which has a file for each process, and the locks that say whose it is.

The process that writes a file holds a POSIX lock on its first byte for as long as it lives: the
kernel drops the lock when the process ends, and a forked child does not inherit it. The process
that takes the records over holds a lock on the second byte.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import stat
import time
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from llmeval_sdk.pipeline.spool._ring import Ring
from llmeval_sdk.process import private


_WRITER, _READER = 0, 1
_SUFFIX = ".ring"
_NEW = ".new"
_STALE_SECONDS = 60.0
_CHILD_BYTES = 4 << 20
"""Size of a child's file: room for a thousand records, more than it holds at any one time."""
_held: set[tuple[int, str]] = set()
"""The files that this process has open, each with the process's id. POSIX drops all locks that a
process has on a file as soon as it closes any descriptor of it, so none is opened twice."""


class SpoolError(Exception):
    """Why the spool cannot be used; the message is for people, ``reason`` for counting."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class SpoolFile:
    """One open file of a folder, with its lock."""

    def __init__(self, folder: Folder, name: str, descriptor: int, ring: Ring, key: str) -> None:
        self.ring = ring
        self._folder = folder
        self.name = name
        self._descriptor = descriptor
        self._key = (os.getpid(), key)
        _held.add(self._key)
        self.is_abandoned = True
        """False while another process that writes the file lives."""

    def check(self) -> None:
        """See whether the process that writes the file has ended."""
        self.is_abandoned = self.is_abandoned or _lock(self._descriptor, _WRITER)

    def release(self) -> None:
        """Close the file, and remove it if it is empty and no process writes it."""
        if self._key not in _held or self._key[0] != os.getpid():  # released, or a forked child's
            return
        if self.is_abandoned and self.ring.is_empty:
            with suppress(OSError):
                os.unlink(self.name, dir_fd=self._folder.descriptor)
        # Now, and not when it is collected: the map has a descriptor of its own, whose closing
        # would drop the locks of whoever has the file then.
        self.ring.memory.close()
        os.close(self._descriptor)
        _held.discard(self._key)


class Folder:
    """A folder of spool files, opened when first used.

    Args:
        path: the folder; made with mode 0700 if it is not there. It must belong to this user, be no
            symbolic link, and not be writable by others.
        file_bytes: the size of one process's file.
        max_bytes: how much all files together may take. A process whose file would exceed that
            does not spool.
    """

    def __init__(self, path: str, *, file_bytes: int, max_bytes: int) -> None:
        self.path = Path(path).expanduser().absolute()
        self._file_bytes = max(file_bytes, 1 << 16)
        self._max_bytes = max_bytes
        self._descriptor: int | None = None

    @property
    def has_files(self) -> bool:
        """Whether some process has left a file; this does not make the folder."""
        try:
            return any(name.endswith(_SUFFIX) for name in os.listdir(self.path))  # noqa: PTH208
        except OSError:
            return False

    @property
    def descriptor(self) -> int:
        """The open folder; raises `SpoolError` if it cannot be used or is not safe."""
        if self._descriptor is None:
            try:
                import fcntl  # noqa: F401
            except ImportError:
                raise SpoolError("unsupported", "this system has no file locks") from None
            try:
                self._descriptor = _open_folder(self.path)
            except OSError as error:
                raise SpoolError("folder", f"{self.path}: {error.strerror}") from error
        return self._descriptor

    def create(self, *, left: bool) -> SpoolFile:
        """Make the file of this process; with ``left`` another process is to deliver its records.

        Raises `SpoolError` where it cannot be made.
        """
        used = sum(size for _, size in self._sizes())
        if used + self._file_bytes > self._max_bytes:
            raise SpoolError("quota", f"{self.path} holds {used} bytes already")
        name = f"{os.getpid()}-{os.urandom(8).hex()}{_SUFFIX}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(name + _NEW, flags, 0o600, dir_fd=self.descriptor)
            try:
                _reserve(descriptor, self._file_bytes)
                _lock(descriptor, _WRITER)
                ring = Ring.new(_map(descriptor), left=left)
                file = SpoolFile(self, name, descriptor, ring, _key(descriptor))
                os.rename(name + _NEW, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
            except BaseException:
                with suppress(OSError):
                    os.unlink(name + _NEW, dir_fd=self.descriptor)
                os.close(descriptor)
                raise
        except OSError as error:
            raise SpoolError("file", f"{self.path}: {error.strerror}") from error
        return file

    def adopt(self, *, living: bool, but: Container[str] = ()) -> Iterator[SpoolFile]:
        """Take over the files of processes that ended.

        With ``living`` also those of living processes that leave their records to another one.
        """
        for name, _ in sorted(self._sizes()):
            if name in but:
                continue
            if name.endswith(_SUFFIX):
                file = self._open(name, living=living)
                if file is not None:
                    yield file
            elif name.endswith(_SUFFIX + _NEW):
                self._remove_stale(name)

    def _sizes(self) -> list[tuple[str, int]]:
        sizes = []
        for name in os.listdir(self.descriptor):  # noqa: PTH208 - by descriptor
            with suppress(OSError):
                about = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
                if stat.S_ISREG(about.st_mode) and (_SUFFIX in name):
                    sizes.append((name, about.st_size))
        return sizes

    def _open(self, name: str, *, living: bool) -> SpoolFile | None:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with suppress(OSError):
            about = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
            if (os.getpid(), f"{about.st_dev}:{about.st_ino}") in _held:
                return None
            descriptor = os.open(name, flags, dir_fd=self.descriptor)
            file = self._opened(name, descriptor, living=living)
            if file is None:
                os.close(descriptor)
            return file
        return None

    def _opened(self, name: str, descriptor: int, *, living: bool) -> SpoolFile | None:
        about = os.fstat(descriptor)
        ours = stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid()
        if not ours or not _lock(descriptor, _READER) or not about.st_size:
            return None
        abandoned = _lock(descriptor, _WRITER)
        if not (abandoned or living) or not os.fstat(descriptor).st_nlink:
            return None
        ring = Ring.read(_map(descriptor))
        if ring is None or not (abandoned or ring.left):
            return None
        file = SpoolFile(self, name, descriptor, ring, _key(descriptor))
        file.is_abandoned = abandoned
        return file

    def _remove_stale(self, name: str) -> None:
        """Remove a half-made file of a process that was killed while it made it."""
        with suppress(OSError):
            about = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
            if time.time() - about.st_mtime > _STALE_SECONDS:
                os.unlink(name, dir_fd=self.descriptor)


def children_of(store: str) -> Path:
    """Return where multiprocessing's children leave their records: in a folder beside the store."""
    return Path(store).expanduser().with_name("children")


def children_folder(store: str, exporters: Iterable[str], *, max_bytes: int) -> Folder:
    """Return the folder in which multiprocessing's children leave what their parent delivers.

    There is one for each set of exporters, so that records of one app are not sent to where another
    sends its own.
    """
    names = re.sub(r"[^A-Za-z0-9]+", "-", "-".join(sorted(exporters)))[:100]
    return Folder(
        str(children_of(store) / (names or "none")),
        file_bytes=_CHILD_BYTES,
        max_bytes=max_bytes,
    )


def _open_folder(path: Path) -> int:
    """Open the folder; raises OSError where others could have put a file into it."""
    private.make_folder(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        private.check_folder(os.fstat(descriptor))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _reserve(descriptor: int, size: int) -> None:
    """Reserve the disk space: a write to a mapped page that has none would kill the process."""
    try:
        os.posix_fallocate(descriptor, 0, size)
    except (AttributeError, OSError) as error:
        if getattr(error, "errno", None) == errno.ENOSPC:
            raise
        os.pwrite(descriptor, bytes(size), 0)


def _map(descriptor: int) -> mmap.mmap:
    """Map a file and load its pages, so that no write has to wait for the disk."""
    flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
    return mmap.mmap(descriptor, 0, flags=flags)


def _lock(descriptor: int, byte: int) -> bool:
    import fcntl

    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
    except OSError:
        return False
    return True


def _key(descriptor: int) -> str:
    about = os.fstat(descriptor)
    return f"{about.st_dev}:{about.st_ino}"
