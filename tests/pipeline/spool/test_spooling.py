"""When the pipeline's part in the spool may be said to have nothing left to do."""

import os

from llmeval_sdk.pipeline.recovery import MOST_FILES, Spooling
from llmeval_sdk.pipeline.spool import Folder
from llmeval_sdk.process import shield


class Watched(Folder):
    """Asks, while it looks for files, whether the spool seems to be done with."""

    seemed_done = False

    def adopt(self, **options):
        self.seemed_done |= self.spooling.scans and self.spooling.is_idle
        yield from super().adopt(**options)


def test_nothing_is_idle_before_the_first_look_has_ended(tmp_path):
    """Who waits until nothing waits, such as ``agent --once``, does not go while files are opened."""
    folder = Watched(str(tmp_path / "spool"), file_bytes=1 << 17, max_bytes=1 << 24)
    folder.spooling = Spooling(folder, (), pack=bytes, unpack=bytes, left=False, living=False)
    assert list(folder.spooling.tend()) == []
    assert folder.spooling.scans
    assert folder.spooling.is_idle
    assert not folder.seemed_done


def spooling_of(folder, **options):
    """Return a pipeline's part in a folder, whose records are plain bytes."""
    return Spooling(folder, (), pack=bytes, unpack=bytes, left=False, living=False, **options)


def small_folder(tmp_path):
    return Folder(str(tmp_path / "spool"), file_bytes=1 << 16, max_bytes=1 << 24)


def crash(folder):
    """Begin with the records of ended processes, and end while the first one is dealt with."""
    child = os.fork()
    if child == 0:
        for kept in spooling_of(folder).tend():
            os._exit(0 if kept.item == b"poison" else 1)
        os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_record_at_which_two_processes_ended_is_skipped_and_counted(tmp_path):
    """Adoption neither crashes for ever nor loses the records behind it."""
    folder = small_folder(tmp_path)
    child = os.fork()
    if child == 0:
        writer = spooling_of(folder)
        for record in (b"poison", b"good"):
            writer.keep(record)
        os._exit(0)
    os.waitpid(child, 0)
    assert [crash(folder), crash(folder)] == [0, 0]
    reader = spooling_of(folder)
    assert [kept.item for kept in reader.tend()] == [b"good"]
    assert reader.stats() == {"poisoned": 1, "adopted": 1}


def test_what_a_killed_process_held_without_a_slot_is_counted_by_who_adopts_its_file(tmp_path):
    """A full file says how many records went down with its process."""
    folder = small_folder(tmp_path)
    child = os.fork()
    if child == 0:
        writer = spooling_of(folder)
        for _ in range(200):
            writer.keep(b"x" * 2_000)
        os._exit(writer.stats().get("full", 0))
    unsaved = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert 0 < unsaved < 200
    reader = spooling_of(folder)
    assert len(list(reader.tend())) == 200 - unsaved
    assert reader.killed.value == unsaved


def test_a_process_that_writes_faster_than_it_is_emptied_has_more_files(tmp_path):
    """Up to a bound; one that is as fast as the others keeps to its first file."""
    folder = small_folder(tmp_path)
    writer = spooling_of(folder)
    places = {writer.keep(b"x").file for _ in range(100)}
    assert 1 < len(places) < MOST_FILES
    assert writer.stats() == {"kept": 100}
    assert len(os.listdir(tmp_path / "spool")) == len(places)
    assert len(places) - 1 < MOST_FILES * writer.level < len(places)
    assert writer.keep(b"x" * 100_000).place == ()  # which no file has room for
    assert len(os.listdir(tmp_path / "spool")) == len(places)
    steady = spooling_of(small_folder(tmp_path / "steady"))
    for _ in range(100):
        kept = steady.keep(b"x")
        kept.file.ring.free(kept.place)
    assert len(os.listdir(tmp_path / "steady" / "spool")) == 1


def written_by_a_child(folder, *records):
    """Let a process keep records and end."""
    child = os.fork()
    if child == 0:
        writer = spooling_of(folder)
        for record in records:
            writer.keep(record)
        os._exit(0)
    os.waitpid(child, 0)


def test_a_record_that_was_handed_on_leaves_the_spool(tmp_path):
    """Once nothing behind it can lose it any more; the next process then finds nothing."""
    own = spooling_of(small_folder(tmp_path))
    kept = [own.keep(b"one"), own.keep(b"two")]
    own.handed_on(kept[0], (), own.missed)
    assert not own.is_idle
    for _ in range(2):
        assert list(own.tend()) == []
    assert own.is_idle
    ring = kept[1].file.ring
    assert [ring.take(first)[1] for first in ring.records()] == [b"two"]
    own.close(delivered=True)
    assert own.stats() == {"kept": 2, "left": 1}


def test_a_torn_record_is_counted_and_those_around_it_are_taken_over(tmp_path):
    """One that no machine wrote as a whole is cleared, and is no mistake of ours."""
    folder = small_folder(tmp_path)
    written_by_a_child(folder, b"one", b"two", b"three")
    (path,) = folder.path.iterdir()
    content = path.read_bytes()
    assert content.count(b"two") == 1
    path.write_bytes(content.replace(b"two", b"owt"))
    reader = spooling_of(folder)
    problems = shield.caught.snapshot()
    assert [kept.item for kept in reader.tend()] == [b"one", b"three"]
    assert reader.stats() == {"torn": 1, "adopted": 2}
    assert shield.caught.snapshot() == problems


def test_what_a_living_process_writes_later_is_taken_over_as_well(tmp_path):
    """Whoever delivers for it looks again and again, until it has ended."""
    folder = small_folder(tmp_path)
    reading, writing = os.pipe()
    told, telling = os.pipe()
    child = os.fork()
    if child == 0:
        writer = Spooling(folder, (), pack=bytes, unpack=bytes, left=True, living=False)
        for record in (b"one", b"two"):
            writer.keep(record)
            os.write(telling, b".")
            os.read(reading, 1)
        os._exit(0)
    reader = Spooling(folder, (), pack=bytes, unpack=bytes, left=False, living=True)
    found = []
    for _ in range(2):
        os.read(told, 1)
        found.append([kept.item for kept in reader.tend()])
        os.write(writing, b".")
    assert found == [[b"one"], [b"two"]]
    os.waitpid(child, 0)
    for end in (reading, writing, told, telling):
        os.close(end)


def test_a_child_that_may_be_killed_says_when_its_file_fills(tmp_path):
    """It then hands over; and it takes over nothing of other processes."""
    folder = small_folder(tmp_path)
    written_by_a_child(folder, b"of another")
    calls = []
    own = spooling_of(folder)
    assert own.open(crowded=lambda: calls.append(len(kept)))
    kept = []
    while not calls:
        kept.append(own.keep(b"record"))
    ring = kept[0].file.ring
    assert len(kept) - 1 == calls[0] == (ring._slots + 1) // 2
    assert list(own.tend()) == []
    own.close(delivered=False)
