"""Reading records is bounded: no bytes crash it, and no length makes it ask for memory."""

import marshal
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmeval_sdk.pipeline.spool import Unreadable, read


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
    | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
)  # fmt: skip


@given(plain)
def test_what_marshal_wrote_comes_back(value):
    """Every value of plain builtins, of the same types."""
    assert repr(read(marshal.dumps(value, 2))) == repr(value)


@pytest.mark.parametrize(
    "value",
    [1 + 2j, {1, 2}, frozenset("a"), {(1, ("a", None)): [(2,)]}, {b"key": {}}, -(2**70), "\ud800"],
    ids=repr,
)
def test_rarer_values_come_back_too(value):
    """Complex numbers, sets, and mappings whose keys are tuples."""
    assert read(marshal.dumps(value, 2)) == value


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"(" * 100_000,
        b"[" + struct.pack("<i", 2**31 - 1),
        b"u" + struct.pack("<i", 2**31 - 1) + b"x",
        b"u" + struct.pack("<i", -1),
        b"l" + struct.pack("<i", 2**30),
        b"c" + bytes(100),
        b"r" + bytes(4),
        b"{" + b"NN" * 3,
        b"{" + b"(\x01\0\0\0[\0\0\0\0" + b"N0",
        b"N" + b"N",
        (b"(" + struct.pack("<i", 1)) * 5_000 + b"N",
    ],
)
def test_hostile_bytes_are_refused(record):
    """Depth, lengths, code objects, references and trailing bytes: an error, and at once."""
    with pytest.raises(Unreadable):
        read(record)


def test_damaged_records_are_refused_or_read():
    """A record with flipped bytes gives a value or `Unreadable`, nothing else."""
    dice = random.Random(3)
    whole = marshal.dumps((1, (None, 1.5, "text", {"a": [True, 2**70, b"x"]}), [{"b": ()}]), 2)
    refused = 0
    for _ in range(5_000):
        damaged = bytearray(whole)
        for _ in range(dice.randrange(1, 4)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        try:
            read(bytes(damaged))
        except Unreadable:
            refused += 1
    assert refused > 1_000
