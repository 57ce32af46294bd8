"""A file is read within bounds, however long it and its lines are."""

import gzip
import io
import itertools

import pytest

from llmeval_sdk.process import reading
from llmeval_sdk.process.reading import BadLine, numbered_lines, read_file


class Endless(io.RawIOBase):
    """A file that repeats some bytes for ever, and counts how many were taken."""

    def __init__(self, content):
        self._content = content
        self.taken = 0

    def readable(self):
        return True

    def readinto(self, buffer):
        block = itertools.islice(itertools.cycle(self._content), len(buffer))
        buffer[:] = bytes(block)
        self.taken += len(buffer)
        return len(buffer)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\n", "is as empty as the 1,000 before: what follows is not read"),
        (b" \t\r\n", "is as empty as the 1,000 before: what follows is not read"),
        (b"x", "is longer than 0 GB, so what follows is not read"),
        (b"\0", "is longer than 0 GB, so what follows is not read"),
    ],
    ids=repr,
)
def test_a_file_without_end_ends(monkeypatch, content, words):
    """Empty lines without number, and one line without end."""
    monkeypatch.setattr(reading, "MAX_EMPTY_LINES", 1_000)
    monkeypatch.setattr(reading, "MAX_SKIPPED", 4 << 20)
    file = Endless(content)
    ((_, line),) = numbered_lines(io.BufferedReader(file), most=1 << 20)
    assert line == BadLine(words, is_end=True)
    assert file.taken < 8 << 20


def test_lines_keep_their_numbers_where_others_are_empty_or_too_long():
    """A byte order mark belongs to no line, and a line that is too long costs only itself."""
    file = io.BytesIO(b"\xef\xbb\xbfone\n\n" + b"x" * 3_000_000 + b"\n  \nfive")
    assert list(numbered_lines(file, most=1 << 20)) == [
        (1, b"one\n"), (3, BadLine("is longer than 1 MB")), (5, b"five"),
    ]  # fmt: skip


@pytest.mark.parametrize("where", ["head", "middle", "end"])
def test_damage_of_a_compressed_file_is_said_once(where):
    """What stood before it is read; nothing is raised."""
    whole = gzip.compress(b"".join(b"%d\n" % n for n in range(200_000)))
    at = {"head": 2, "middle": len(whole) // 2, "end": len(whole) - 4}[where]
    content = bytearray(whole)
    content[at : at + 4] = b"\xff\xff\xff\xff"
    *before, (_, last) = numbered_lines(gzip.GzipFile(fileobj=io.BytesIO(content)), most=1 << 20)
    assert last.is_end
    assert last.why.startswith("cannot be read, nor can what follows")
    assert bool(before) == (where != "head")


def test_a_file_that_is_too_large_to_be_read_at_once_is_refused(tmp_path):
    """One byte more than allowed is an error of the file, and so is a file without end."""
    path = tmp_path / "labels.jsonl"
    path.write_bytes(b"x" * 1_000)
    assert read_file(path, most=1_000) == b"x" * 1_000
    for name in (path, "/dev/zero"):
        with pytest.raises(OSError, match="more than 0 MB"):
            read_file(name, most=999)
