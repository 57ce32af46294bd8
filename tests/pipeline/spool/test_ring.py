"""The ring: what was appended can be read again, whole, and nothing else."""

import mmap
import os
import random
import signal
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmeval_sdk.pipeline.spool import SLOT, Ring, Torn


ROOM = SLOT - 16


def ring(size=1 << 18, *, left=False):
    return Ring.new(mmap.mmap(-1, size), left=left)


def contents(of):
    return [of.take(first)[1] for first in of.records()]


@pytest.mark.parametrize("size", [0, 1, ROOM - 1, ROOM, ROOM + 1, 2 * ROOM, 2 * ROOM + 1, 40_000])
def test_a_record_of_any_size_comes_back(size):
    """Sizes around one slot and several are read as they were written."""
    one = ring()
    record = random.Random(size).randbytes(size)
    place = one.append(record)
    assert len(place) == max(1, -(-size // ROOM))
    assert one.take(place[0]) == (place, record)


def test_records_are_read_in_the_order_they_were_written():
    """The order survives slots that are used again in any order."""
    one = ring()
    places = [one.append(b"early %d" % number) for number in range(20)]
    for place in places[::2]:
        one.free(place)
    late = [b"late %d" % number for number in range(10)]
    for record in late:
        one.append(record)
    assert contents(one)[10:] == late


def test_a_full_ring_takes_nothing_and_keeps_what_it_has():
    """With no slot free, append says so; with one freed, it takes a record again."""
    one = ring()
    records = []
    while (place := one.append(b"x%d" % len(records))) is not None:
        records.append(place)
    assert len(records) > 50
    assert one.append(b"more") is None
    assert one.append(b"y" * 10_000) is None
    one.free(records[3])
    assert one.append(b"more") is not None
    assert len(one.records()) == len(records)


def test_a_record_that_does_not_fit_gives_its_slots_back():
    """A long record that finds too few slots leaves all of them free."""
    one = ring()
    whole = len(one._free)
    assert one.append(b"z" * (whole + 1) * ROOM) is None
    assert len(one._free) == whole


@pytest.mark.parametrize("at", [0, 4, 8, 12, 16, 500])
@pytest.mark.parametrize("size", [600, 9_000])
def test_a_changed_byte_is_found(at, size):
    """Whatever byte of a record is not what was written, it counts as torn."""
    one = ring()
    place = one.append(b"a" * size)
    for slot in place:
        offset = one._start + slot * SLOT + at
        kept = one.memory[offset]
        one.memory[offset] = kept ^ 0x41
        with pytest.raises(Torn):
            one.take(place[0])
        one.memory[offset] = kept
    assert one.take(place[0])[1] == b"a" * size


def test_a_chain_that_never_ends_is_torn():
    """A next slot that leads back does not keep the reader for ever."""
    one = ring()
    place = one.append(b"b" * 9_000)
    last = one._start + place[-1] * SLOT
    one.memory[last + 12 : last + 16] = place[0].to_bytes(4, "little")
    with pytest.raises(Torn):
        one.take(place[0])


def test_threads_never_share_a_slot():
    """Eight threads that append and free at once read back what each of them wrote."""
    one = ring(1 << 20)
    wrong = []

    def work(name):
        chance = random.Random(name)
        held = {}
        for number in range(2_000):
            record = b"%d-%d-" % (name, number) * chance.randint(1, 900)
            place = one.append(record)
            if place is not None:
                held[place] = record
            if len(held) > 8:
                place = chance.choice(list(held))
                if one.take(place[0]) != (place, held.pop(place)):
                    wrong.append(place)
                one.free(place)
        for place, record in held.items():
            if one.take(place[0])[1] != record:
                wrong.append(place)
            one.free(place)

    slots = len(one._free)
    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert one.is_empty
    assert sorted(one._free) == list(range(slots))


def test_a_signal_handler_may_append_in_the_middle_of_an_append():
    """Records from a handler and from what it interrupts are both whole."""
    one = ring(1 << 20)
    counts = {"handler": 0, "main": 0}

    def handler(*_):
        place = one.append(b"handler" * 700)
        assert one.take(place[0])[1] == b"handler" * 700
        one.free(place)
        counts["handler"] += 1

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        while counts["handler"] < 200:
            place = one.append(b"main" * 2_000)
            assert one.take(place[0])[1] == b"main" * 2_000
            one.free(place)
            counts["main"] += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert one.is_empty


def test_slots_that_another_process_cleared_are_used_again(tmp_path):
    """A writer whose records are left to a reader never runs full while the reader keeps up."""
    descriptor = os.open(tmp_path / "ring", os.O_RDWR | os.O_CREAT)
    os.ftruncate(descriptor, 1 << 18)
    writer = Ring.new(mmap.mmap(descriptor, 0), left=True)
    reader = Ring.read(mmap.mmap(descriptor, 0))
    assert reader.left
    for number in range(5_000):
        record = b"%d" % number * (1 + number % 900)
        assert writer.append(record) is not None
        (first,) = reader.records()
        assert reader.take(first)[1] == record
        reader.clear(first)
    os.close(descriptor)


@pytest.mark.parametrize("junk", [b"", b"\0" * 5_000, b"llmevalR" + b"\xff" * 20_000])
def test_a_file_of_somebody_else_is_not_read(junk, tmp_path):
    """Empty, zeroed and broken files are none of ours."""
    path = tmp_path / "junk"
    path.write_bytes(junk or b"x")
    with path.open("r+b") as file:
        assert Ring.read(mmap.mmap(file.fileno(), 0)) is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=9_000), st.integers(0, 30)), max_size=60))
def test_any_sequence_of_appends_and_frees_keeps_the_rest(steps):
    """A model of appended and freed records agrees with what can be read."""
    one = ring(1 << 17)
    held = {}
    for step in steps:
        if isinstance(step, bytes):
            place = one.append(step)
            if place is not None:
                held[place] = step
        elif held:
            place = list(held)[step % len(held)]
            one.free(place)
            del held[place]
    assert contents(one) == list(held.values())


def test_a_file_begins_as_every_release_writes_it():
    """A spool that an earlier release left is read by the next one."""
    one = ring(left=True)
    assert one.memory[:12] == b"llmevalR" + (1).to_bytes(4, "little")
    assert int.from_bytes(one.memory[16:20], "little") == 1
    one.append(b"record")
    assert contents(Ring.read(one.memory)) == [b"record"]


def test_only_the_record_at_which_processes_ended_is_poisoned():
    """Each record has its own count, which surviving it sets back."""
    one = ring()
    (good,), (bad,) = one.append(b"good"), one.append(b"bad")
    for _ in range(2):
        one.begin(bad)
        one.begin(good)
        one.through(good)
    assert (one.is_poisoned(good), one.is_poisoned(bad)) == (False, True)
    one.through(bad)
    assert not one.is_poisoned(bad)
    one.clear(bad)
    one.begin(bad)
    assert contents(one) == [b"good"]
