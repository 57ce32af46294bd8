"""Keeps records that outlive their process, in one folder with a memory-mapped file per process.

This module knows bytes and plain values only; the pipeline knows what they mean.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import stat
import struct
import time
from binascii import crc32
from collections import deque
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from llmeval_sdk.process import private


# A file of slots that is mapped into memory, so that records survive a kill -9.
#
# The file is a page with the head, a table with one byte for each slot, and the slots of 3 KiB. A
# record takes as many free slots as it needs, each of which names the next one. Writing it ends
# with setting the table's byte of its first slot, so a record is there as a whole or not at all.
# Whoever has dealt with the record clears the byte. The byte is 1 plus the number of processes
# that ended while they dealt with this very record, which tells a record that brings processes
# down from others.
#
# Writers take no lock and make no system call, so nothing gives up the GIL. ``list.pop`` and
# ``itertools.count`` are one C call each, so that threads, signal handlers and finalisers never
# get the same slot. The slots that were freed last are used first, because they are still in the
# cache.


SLOT = 3072
_HEAD = struct.Struct("<IIII")
"""Head of a slot: the crc32 of its bytes (seeded with number ^ next slot), the record's
number, the length, and the next slot."""
_ROOM = SLOT - _HEAD.size
"""How many bytes of a record a slot holds: less than the 5 KiB at which ``crc32`` gives up the
GIL."""
_END = 0xFFFFFFFF
_FILE_HEAD = struct.Struct("<8sIII")
"""Magic, version, number of slots, whether the records are left to another process."""
_UNSAVED = struct.Struct("<I")
_UNSAVED_AT = 64
"""Offset in the head's page of the number of records that this process holds without a slot."""
_LOST = struct.Struct("<II")
_LOST_AT, _TOLD_AT = 68, 76
"""Offsets of how many records that process has lost because no file had room, and how many of them
were the first span of a trace; and of how many of both its reader has counted."""
_MAGIC = b"llmevalR"
_VERSION = 1
_PAGE = 4096
_MARK = re.compile(rb"[^\0]")
_THERE = 1
_LOOKED_AT = 8
MAX_STRIKES = 2
"""After this many processes have ended while they dealt with a record, the next one leaves it
alone. One would be too few: a process that is killed at a random moment was dealing with some
record too."""

Place = tuple[int, ...]
"""The slots of one record, the first one first."""

_pack = _HEAD.pack


class Torn(Exception):  # noqa: N818 - a state of a record, not a mistake
    """A record that is not whole: the machine, not just the process, stopped during the copy."""


class Ring:
    """The slots of one file."""

    __slots__ = ("_free", "_numbers", "_placed", "_slots", "_start", "left", "memory")

    def __init__(self, memory: mmap.mmap, slots: int, *, left: bool) -> None:
        self.memory = memory
        self.left = left
        self._slots = slots
        self._start = _table_end(slots)
        self._free = list(range(slots - 1, -1, -1))
        self._placed: deque[Place] = deque()
        self._numbers = count(1)

    @classmethod
    def new(cls, memory: mmap.mmap, *, left: bool) -> Ring:
        """Lay out an empty file; with ``left`` another process is to deliver its records."""
        slots = (len(memory) - _PAGE) // (SLOT + 1)
        while _table_end(slots) + slots * SLOT > len(memory):
            slots -= 1
        memory[: _FILE_HEAD.size] = _FILE_HEAD.pack(_MAGIC, _VERSION, slots, left)
        return cls(memory, slots, left=left)

    @classmethod
    def read(cls, memory: mmap.mmap) -> Ring | None:
        """Read the layout of a file that another process made; ``None`` if it is no spool file."""
        if len(memory) < _PAGE:
            return None
        magic, version, slots, left = _FILE_HEAD.unpack_from(memory)
        if magic != _MAGIC or version != _VERSION or len(memory) < _table_end(slots) + slots * SLOT:
            return None
        return cls(memory, slots, left=bool(left))

    # -- the process that writes ----------------------------------------------------------------

    def append(self, record: bytes) -> Place | None:
        """Copy a record; ``None`` when there is no room."""
        free = self._free
        if self.left:
            self._recycle()
        number = next(self._numbers) & 0xFFFFFFFF
        size = len(record)
        try:
            if size <= _ROOM:
                slot = free.pop()
                self._write(slot, record, number, _END)
                place: Place = (slot,)
            else:
                place = self._append_long(record, number, -(-size // _ROOM))
        except IndexError:  # no slot is free
            return None
        self.memory[_PAGE + place[0]] = _THERE
        if self.left:  # not before the byte is set: `_recycle` would take it for a cleared one
            self._placed.append(place)
        return place

    def _append_long(self, record: bytes, number: int, parts: int) -> Place:
        free = self._free
        if len(free) < parts:
            raise IndexError
        slots: list[int] = []
        following = _END
        for index in range(parts - 1, -1, -1):
            try:
                slot = free.pop()
            except IndexError:  # other threads were faster
                free.extend(slots)
                raise
            self._write(slot, record[index * _ROOM : (index + 1) * _ROOM], number, following)
            slots.append(slot)
            following = slot
        return tuple(reversed(slots))

    def _write(self, slot: int, part: bytes, number: int, following: int) -> None:
        size = len(part)
        at = self._start + slot * SLOT
        head = _pack(crc32(part, number ^ following), number, size, following)
        self.memory[at : at + 16 + size] = head + part

    def free(self, place: Place) -> None:
        """Forget a record that was dealt with, and use its slots again."""
        self.memory[_PAGE + place[0]] = 0
        self._free.extend(reversed(place))

    @property
    def level(self) -> float:
        """How many of the slots are taken, from 0 to 1."""
        if self.left:
            for _ in range(_LOOKED_AT):  # little may be appended while it is nearly full
                self._recycle()
        return 1 - len(self._free) / self._slots

    @property
    def largest(self) -> int:
        """How many bytes a record may have at most."""
        return self._slots * _ROOM

    @property
    def is_crowded(self) -> bool:
        """Whether more than half of the slots are taken."""
        return 2 * len(self._free) < self._slots

    @property
    def unsaved(self) -> int:
        """How many records the process that writes the file holds without a slot."""
        return int(_UNSAVED.unpack_from(self.memory, _UNSAVED_AT)[0])

    @unsaved.setter
    def unsaved(self, number: int) -> None:
        _UNSAVED.pack_into(self.memory, _UNSAVED_AT, number)

    def note_lost(self, records: int, traces: int) -> None:
        """Write how many records the process that writes the file has lost so far."""
        _LOST.pack_into(self.memory, _LOST_AT, records, traces)

    @property
    def untold(self) -> tuple[int, int]:
        """The lost records that no reader has counted yet, and how many traces they began."""
        lost = _LOST.unpack_from(self.memory, _LOST_AT)
        told = _LOST.unpack_from(self.memory, _TOLD_AT)
        return max(0, lost[0] - told[0]), max(0, lost[1] - told[1])

    def take_untold(self) -> tuple[int, int]:
        """Return what is `untold`, which the caller counts."""
        untold = self.untold
        if untold[0]:
            told = _LOST.unpack_from(self.memory, _TOLD_AT)
            _LOST.pack_into(self.memory, _TOLD_AT, told[0] + untold[0], told[1] + untold[1])
        return untold

    def _recycle(self) -> None:
        """Take back the slots of the two oldest records, where the other process cleared them."""
        for _ in range(2):
            try:
                place = self._placed.popleft()
            except IndexError:
                return
            if self.memory[_PAGE + place[0]]:
                self._placed.append(place)
            else:
                self._free.extend(reversed(place))

    # -- the process that reads -----------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether every record was dealt with."""
        return _MARK.search(self._table()) is None

    @property
    def count(self) -> int:
        """How many records are there."""
        return sum(1 for _ in self._marked())

    def records(self) -> list[int]:
        """Return the first slots of the records that are there, the oldest record first."""
        numbered = []
        for slot in self._marked():
            number = _HEAD.unpack_from(self.memory, self._start + slot * SLOT)[1]
            numbered.append((number, slot))
        return [slot for _, slot in sorted(numbered)]

    def _marked(self) -> Iterator[int]:
        return (mark.start() for mark in _MARK.finditer(self._table()))

    def _table(self) -> bytes:
        return self.memory[_PAGE : _PAGE + self._slots]

    def is_poisoned(self, first: int) -> bool:
        """Return whether too many processes have ended while they dealt with a record."""
        return self.memory[_PAGE + first] > MAX_STRIKES

    def begin(self, first: int) -> None:
        """Note that this process deals with a record now, so that the next one knows if it dies."""
        if 0 < self.memory[_PAGE + first] <= MAX_STRIKES:
            self.memory[_PAGE + first] += 1

    def through(self, first: int) -> None:
        """Note that this process has survived dealing with a record."""
        if self.memory[_PAGE + first]:
            self.memory[_PAGE + first] = _THERE

    def take(self, first: int) -> tuple[Place, bytes]:
        """Read a record without clearing it; raises `Torn` if it is not whole."""
        place: list[int] = []
        parts = []
        number = None
        slot = first
        while slot != _END:
            if slot >= self._slots or len(place) > self._slots:
                raise Torn
            at = self._start + slot * SLOT
            crc, its_number, size, following = _HEAD.unpack_from(self.memory, at)
            part = self.memory[at + 16 : at + 16 + size] if size <= _ROOM else b""
            number = its_number if number is None else number
            if its_number != number or len(part) != size or crc32(part, number ^ following) != crc:
                raise Torn
            parts.append(part)
            place.append(slot)
            slot = following
        return tuple(place), b"".join(parts)

    def clear(self, first: int) -> None:
        """Mark the record that begins in a slot as dealt with."""
        self.memory[_PAGE + first] = 0


def _table_end(slots: int) -> int:
    return _PAGE + -(-slots // _PAGE) * _PAGE


# The spool's folder, which has a file for each process, and the locks that say whose it is.
#
# The process that writes a file holds a POSIX lock on its first byte for as long as it lives: the
# kernel drops the lock when the process ends, and a forked child does not inherit it. The process
# that takes the records over holds a lock on the second byte.


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
        if self.is_abandoned and self.ring.is_empty and not self.ring.untold[0]:
            with suppress(OSError):
                os.unlink(self.name, dir_fd=self._folder.descriptor)
        # Now, and not when it is collected: the map has a descriptor of its own, whose closing
        # would drop the locks of whoever has the file then.
        self.ring.memory.close()
        os.close(self._descriptor)
        _held.discard(self._key)


class Waiting(NamedTuple):
    """What waits in the files of a folder."""

    records: int
    unread: int
    """How many of them are left to another process, and none takes them."""
    lost: int
    """How many more found no room, which no reader has counted yet."""


FILE_BYTES, MAX_BYTES = 16 << 20, 1 << 30
IS_SUPPORTED = hasattr(os, "O_NOFOLLOW")
"""Whether files can be opened without following links, and locked: not on Windows."""


class Folder:
    """A folder of spool files, opened when first used.

    Args:
        path: the folder; made with mode 0700 if it is not there. It must belong to this user, be no
            symbolic link, and not be writable by others.
        file_bytes: the size of one process's file.
        max_bytes: how much all files together may take. A process whose file would exceed that
            does not spool.
    """

    def __init__(
        self, path: str, *, file_bytes: int = FILE_BYTES, max_bytes: int = MAX_BYTES
    ) -> None:
        self.path = private.absolute(path)
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
            if not IS_SUPPORTED:
                raise SpoolError("unsupported", "this system has no file locks")
            try:
                self._descriptor = _open_folder(self.path)
            except OSError as error:
                raise SpoolError("folder", f"{self.path}: {error.strerror}") from error
        return self._descriptor

    def waiting(self) -> Waiting:
        """Look at what waits, without taking it over; raises `SpoolError` as `descriptor` does."""
        records = unread = lost = 0
        for name, _ in self._sizes():
            with suppress(OSError, ValueError):
                descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self.descriptor)
                try:
                    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as memory:
                        ring = Ring.read(memory)
                        if ring is None:
                            continue
                        here = ring.count
                        records, lost = records + here, lost + ring.untold[0]
                        is_held = (os.getpid(), _key(descriptor)) in _held
                        if ring.left and not is_held and _lock(descriptor, _READER, shared=True):
                            unread += here
                finally:
                    os.close(descriptor)
        return Waiting(records, unread, lost)

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
    return private.absolute(store).with_name("children")


def children_folder(store: str, exporters: Iterable[str]) -> Folder | None:
    """Return the folder in which multiprocessing's children leave what their parent delivers.

    There is one for each set of exporters, so that records of one app are not sent to where another
    sends its own. ``None`` where no spool works, and children deliver for themselves.
    """
    if not IS_SUPPORTED:
        return None
    names = re.sub(r"[^A-Za-z0-9]+", "-", "-".join(sorted(exporters)))[:100]
    return Folder(str(children_of(store) / (names or "none")), file_bytes=_CHILD_BYTES)


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


def _lock(descriptor: int, byte: int, *, shared: bool = False) -> bool:
    import fcntl

    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.lockf(descriptor, kind | fcntl.LOCK_NB, 1, byte)
    except OSError:
        return False
    return True


def _key(descriptor: int) -> str:
    about = os.fstat(descriptor)
    return f"{about.st_dev}:{about.st_ino}"


# Reads what ``marshal`` wrote, and checks lengths, depth and types before it trusts them.
#
# ``marshal.loads`` trusts its input: a damaged or planted record can crash the process or make it
# allocate gigabytes. Records are written by ``marshal.dumps`` because that is on the hot path; its
# format 2 has no references. They are read once each and in the background, which leaves time to be
# careful.


MAX_DEPTH = 64
"""No captured value is nested as deeply."""
_DIGIT = 15
"""Bits of one digit of a long integer."""
MAX_DIGITS = 1_000
_CONSTANTS = {b"N"[0]: None, b"T"[0]: True, b"F"[0]: False}
_SEQUENCES = {b"("[0]: tuple, b"["[0]: list, b"<"[0]: set, b">"[0]: frozenset}
_INT, _LONG, _FLOAT, _COMPLEX, _BYTES, _DICT, _END_MARK = b"ilgys{0"
_TEXTS = frozenset(b"ut")
_int = struct.Struct("<i")
_float = struct.Struct("<d")
_complex = struct.Struct("<dd")
_digit = struct.Struct("<h")
_NOTHING = object()


class Unreadable(ValueError):  # noqa: N818 - a state of a record, not a mistake
    """Bytes that are no record of ours."""


def read(record: bytes) -> Any:
    """Return the value that ``marshal.dumps(value, 2)`` wrote; raises `Unreadable`."""
    try:
        value, end = _read(record, 0, MAX_DEPTH)
    except (struct.error, IndexError, UnicodeDecodeError, TypeError, RecursionError) as error:
        raise Unreadable(type(error).__name__) from None
    if value is _NOTHING or end != len(record):
        raise Unreadable("the record does not end where its value ends")
    return value


def _read(record: bytes, at: int, depth: int) -> tuple[Any, int]:  # noqa: C901, PLR0911
    """Return the value that begins at an offset, and where it ends."""
    kind = record[at]
    at += 1
    if kind in _CONSTANTS:
        return _CONSTANTS[kind], at
    if kind in _TEXTS or kind == _BYTES:
        end = _end(record, at)
        part = record[at + 4 : end]
        return (part if kind == _BYTES else part.decode("utf-8", "surrogatepass")), end
    if kind == _INT:
        return _int.unpack_from(record, at)[0], at + 4
    if kind == _FLOAT:
        return _float.unpack_from(record, at)[0], at + 8
    if kind == _COMPLEX:
        return complex(*_complex.unpack_from(record, at)), at + 16
    if kind == _LONG:
        return _long(record, at)
    if depth == 0:
        raise Unreadable("too deep")
    if kind in _SEQUENCES:
        return _sequence(record, at, depth - 1, _SEQUENCES[kind])
    if kind == _DICT:
        return _dict(record, at, depth - 1)
    if kind == _END_MARK:
        return _NOTHING, at
    raise Unreadable(f"no value begins with {kind:#x}")


def _end(record: bytes, at: int) -> int:
    """Return where bytes that begin with their length end, which must be inside the record."""
    size = _int.unpack_from(record, at)[0]
    if not 0 <= size <= len(record) - at - 4:
        raise Unreadable("a length leads out of the record")
    return int(at + 4 + size)


def _long(record: bytes, at: int) -> tuple[int, int]:
    digits = _int.unpack_from(record, at)[0]
    if abs(digits) > MAX_DIGITS:
        raise Unreadable("an integer is too long")
    at += 4
    number = 0
    for place in range(abs(digits)):
        digit = _digit.unpack_from(record, at)[0]
        if not 0 <= digit < 1 << _DIGIT:
            raise Unreadable("an integer has no such digit")
        number |= digit << place * _DIGIT
        at += 2
    return (-number if digits < 0 else number), at


def _sequence(record: bytes, at: int, depth: int, kind: type) -> tuple[object, int]:
    size = _int.unpack_from(record, at)[0]
    if not 0 <= size <= len(record) - at - 4:  # each item takes a byte at least
        raise Unreadable("a sequence is longer than its record")
    at += 4
    items = []
    for _ in range(size):
        item, at = _read(record, at, depth)
        if item is _NOTHING:
            raise Unreadable("a sequence ends too early")
        items.append(item)
    return kind(items), at


def _dict(record: bytes, at: int, depth: int) -> tuple[dict[object, object], int]:
    mapping: dict[object, object] = {}
    while True:
        key, at = _read(record, at, depth)
        if key is _NOTHING:
            return mapping, at
        mapping[key], at = _read(record, at, depth)
        if mapping[key] is _NOTHING:
            raise Unreadable("a key has no value")


# Keeps records that outlive their process, in one folder with a memory-mapped file per process.
#
# This room knows bytes and plain values only; the pipeline knows what they mean.


__all__ = [
    "SLOT", "Folder", "Place", "Ring", "SpoolError", "SpoolFile", "Torn", "Unreadable",
    "children_folder", "children_of", "read",
]  # fmt: skip
