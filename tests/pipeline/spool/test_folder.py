"""The folder: whose files they are, who may take them over, and what is refused."""

import errno
import os
import stat
import subprocess
import sys

import pytest

from llmeval_sdk.pipeline.spool import Folder, SpoolError


SIZE = 1 << 17


def folder(path, **options):
    return Folder(str(path), file_bytes=SIZE, **{"max_bytes": 1 << 24, **options})


def other_process(code, *arguments):
    """Run code in a process that has opened the folder as ``folder``, and return what it prints."""
    program = (
        "import sys, os; from llmeval_sdk.pipeline.spool import Folder\n"
        f"folder = Folder(sys.argv[1], file_bytes={SIZE}, max_bytes=1 << 24)\n" + code
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    return done.stdout.split()


def leave(path, *records):
    """Let a process write records and die."""
    other_process(
        "file = folder.create(left=False)\n"
        "for record in sys.argv[2:]: file.ring.append(record.encode())\n"
        "os._exit(0)", path, *records,
    )  # fmt: skip


def texts(file):
    return [file.ring.take(first)[1].decode() for first in file.ring.records()]


def test_files_and_folder_are_for_their_owner_only(tmp_path):
    """The folder is 0700, the files 0600, whatever the umask."""
    before = os.umask(0)
    try:
        file = folder(tmp_path / "deep" / "spool").create(left=False)
    finally:
        os.umask(before)
    path = tmp_path / "deep" / "spool"
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert [stat.S_IMODE(each.stat().st_mode) for each in path.iterdir()] == [0o600]
    file.release()
    assert not list(path.iterdir())


def test_what_a_dead_process_left_is_taken_over_once(tmp_path):
    """The file of a process that is gone is adopted; while it is, nobody else gets it."""
    leave(tmp_path / "spool", "one", "two")
    (mine,) = folder(tmp_path / "spool").adopt(living=False)
    assert texts(mine) == ["one", "two"]
    assert other_process("print(len(list(folder.adopt(living=True))))", tmp_path / "spool") == ["0"]
    assert list(folder(tmp_path / "spool").adopt(living=False)) == []
    mine.release()
    (again,) = folder(tmp_path / "spool").adopt(living=False)
    for first in again.ring.records():
        again.ring.clear(first)
    again.release()
    assert not list((tmp_path / "spool").iterdir())


def test_the_file_of_a_living_process_is_its_own(tmp_path):
    """A file is not adopted while its process lives, not even by that process."""
    file = folder(tmp_path / "spool").create(left=False)
    file.ring.append(b"here")
    assert list(folder(tmp_path / "spool").adopt(living=True)) == []
    assert other_process("print(len(list(folder.adopt(living=True))))", tmp_path / "spool") == ["0"]
    file.release()


def test_what_a_living_process_leaves_to_others_goes_to_one_of_them(tmp_path):
    """Only who asks for it gets the file of a living process, and its locks stay as they are."""
    file = folder(tmp_path / "spool").create(left=True)
    file.ring.append(b"here")
    code = (
        "print(len(list(folder.adopt(living=False))))\n"
        "(file,) = folder.adopt(living=True)\n"
        "print(file.ring.take(file.ring.records()[0])[1].decode(), file.is_abandoned)\n"
        "file.check(); print(file.is_abandoned)"
    )
    assert other_process(code, tmp_path / "spool") == ["0", "here", "False", "False"]
    file.release()
    (left,) = folder(tmp_path / "spool").adopt(living=False)
    assert texts(left) == ["here"]
    left.release()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_holds_no_lock_of_its_parent(tmp_path):
    """While a child lives on, the file of its dead parent is adopted."""
    code = """
file = folder.create(left=False)
file.ring.append(b"parent")
read, write = os.pipe()
child = os.fork()
if child == 0:
    os.close(write)
    os.read(read, 1)  # until the test lets go of our standard input's far end
    sys.stdin.read()
    os._exit(0)
print(child, flush=True)
os._exit(0)
"""
    program = (
        "import sys, os; from llmeval_sdk.pipeline.spool import Folder\n"
        f"folder = Folder(sys.argv[1], file_bytes={SIZE}, max_bytes=1 << 24)\n" + code
    )
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "spool")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        child = int(process.stdout.readline())
        assert process.wait(10) == 0
        os.kill(child, 0)  # it lives
        (file,) = folder(tmp_path / "spool").adopt(living=False)
        assert texts(file) == ["parent"]
        file.release()


def test_a_folder_that_others_can_write_to_is_refused(tmp_path):
    """Somebody else's files must not get in."""
    path = tmp_path / "open"
    path.mkdir()
    path.chmod(0o777)
    with pytest.raises(SpoolError, match="other users can write"):
        folder(path).create(left=False)


def test_a_symbolic_link_in_place_of_the_folder_is_refused(tmp_path):
    """The folder itself must be one."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(SpoolError):
        folder(tmp_path / "link").create(left=False)


def test_planted_links_and_strange_files_are_left_alone(tmp_path):
    """A link, a pipe and a file that is none of ours are neither followed nor removed."""
    path = tmp_path / "spool"
    path.mkdir(mode=0o700)
    target = tmp_path / "precious"
    target.write_bytes(b"precious" * 10_000)
    (path / "1-aa.ring").symlink_to(target)
    os.mkfifo(path / "2-bb.ring")
    (path / "3-cc.ring").write_bytes(b"text")
    (path / "4-dd.ring").touch()
    (path / "notes.txt").write_text("mine")
    assert list(folder(path).adopt(living=True)) == []
    assert target.read_bytes() == b"precious" * 10_000
    assert len(list(path.iterdir())) == 5


def test_the_quota_holds(tmp_path):
    """A process that finds the folder full makes no file."""
    small = folder(tmp_path / "spool", max_bytes=2 * SIZE)
    files = [small.create(left=False), small.create(left=False)]
    with pytest.raises(SpoolError) as refused:
        small.create(left=False)
    assert refused.value.reason == "quota"
    for file in files:
        file.release()


def test_the_space_is_reserved_when_the_file_is_made(tmp_path):
    """A disk that fills up later cannot end the process: every block of the file is there."""
    file = folder(tmp_path / "spool").create(left=False)
    (path,) = (tmp_path / "spool").iterdir()
    assert path.stat().st_blocks * 512 >= SIZE
    file.release()


def test_a_half_made_file_goes_after_a_while(tmp_path):
    """What a process left that was killed while it made its file is removed, but not at once."""
    path = tmp_path / "spool"
    path.mkdir(mode=0o700)
    half = path / "1-aa.ring.new"
    half.touch()
    assert list(folder(path).adopt(living=False)) == []
    assert half.exists()
    os.utime(half, (0, 0))
    assert list(folder(path).adopt(living=False)) == []
    assert not half.exists()


def test_what_is_planted_in_the_folder_does_not_use_up_its_room(tmp_path):
    """A link to something large counts with nothing, and no file is made smaller than 64 KiB."""
    path = tmp_path / "spool"
    path.mkdir(mode=0o700)
    (tmp_path / "large").write_bytes(bytes(4 * SIZE))
    (path / "1-aa.ring").symlink_to(tmp_path / "large")
    small = Folder(str(path), file_bytes=1, max_bytes=SIZE)
    assert small.has_files
    file = small.create(left=False)
    assert (path / file.name).stat().st_size == 1 << 16
    file.release()


def test_a_folder_says_whether_files_are_there(tmp_path):
    """Without making one; what is no spool file does not count."""
    path = tmp_path / "spool"
    assert not folder(path).has_files
    assert not path.exists()
    path.mkdir(mode=0o700)
    (path / "notes.txt").touch()
    assert not folder(path).has_files
    leave(path, "one")
    assert folder(path).has_files


def refuse(monkeypatch, number):
    """Let the reservation of disk space fail with an error."""

    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", fail)


def test_on_a_full_disk_no_file_is_made(tmp_path, monkeypatch):
    """A write to a page without space would end the process, so the spool is not used."""
    refuse(monkeypatch, errno.ENOSPC)
    with pytest.raises(SpoolError) as refused:
        folder(tmp_path / "spool").create(left=False)
    assert refused.value.reason == "file"
    assert list((tmp_path / "spool").iterdir()) == []


def test_where_space_cannot_be_reserved_it_is_written(tmp_path, monkeypatch):
    """Some file systems cannot reserve; zeros take the space as well."""
    refuse(monkeypatch, errno.EOPNOTSUPP)
    file = folder(tmp_path / "spool").create(left=False)
    assert (tmp_path / "spool" / file.name).stat().st_blocks * 512 >= SIZE
    file.release()
