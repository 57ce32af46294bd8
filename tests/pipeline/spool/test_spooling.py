"""When the pipeline's part in the spool may be said to have nothing left to do."""

import os

from llmeval_sdk.pipeline.recovery import Spooling
from llmeval_sdk.pipeline.spool import Folder


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
        for _ in range(100):
            writer.keep(b"x" * 2_000)
        os._exit(writer.stats()["full"])
    unsaved = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert 0 < unsaved < 100
    reader = spooling_of(folder)
    assert len(list(reader.tend())) == 100 - unsaved
    assert reader.killed.value == unsaved
