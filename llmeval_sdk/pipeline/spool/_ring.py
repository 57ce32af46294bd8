"""A file of slots that is mapped into memory, so that records survive a kill -9.

The file is a page with the head, a table with one byte for each slot, and the slots of 3 KiB. A
record takes as many free slots as it needs, each of which names the next one. Writing it ends with
setting the table's byte of its first slot, so a record is there as a whole or not at all. Whoever
has dealt with the record clears the byte. The byte is 1 plus the number of processes that ended
while they dealt with this very record, which tells a record that brings processes down from others.

Writers take no lock and make no system call, so nothing gives up the GIL. ``list.pop`` and
``itertools.count`` are one C call each, so that threads, signal handlers and finalisers never get
the same slot. The slots that were freed last are used first, because they are still in the cache.
"""

from __future__ import annotations

import mmap
import re
import struct
from binascii import crc32
from collections import deque
from collections.abc import Iterator
from itertools import count


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
_MAGIC = b"llmevalR"
_VERSION = 1
_PAGE = 4096
_MARK = re.compile(rb"[^\0]")
_THERE = 1
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
