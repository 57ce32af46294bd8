"""The file itself: who may read it, what makes it unusable, and what happens then."""

import logging
import os
import sqlite3
import stat
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from llmeval_sdk.errors import ConfigurationError, ExportError
from llmeval_sdk.model import Batch
from llmeval_sdk.store import _schema
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.writer import StoreWriter


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_may_read_what_users_asked(writer, path, make):
    """The file and what stands beside it are 0600, in a 0700 folder of its own."""
    writer.write(Batch((make.span(),)))
    assert mode(path.parent) == 0o700
    beside = [each for each in path.parent.iterdir() if each.name.startswith("llmeval.db")]
    assert len(beside) == 3
    assert {mode(each) for each in beside} == {0o600}


def test_a_folder_that_was_there_keeps_its_mode(tmp_path, make):
    """Only a folder of our own making is closed to others."""
    tmp_path.chmod(0o755)
    with closing(StoreWriter(tmp_path / "llmeval.db")) as writer:
        writer.write(Batch((make.span(),)))
    assert mode(tmp_path) == 0o755
    assert not (tmp_path / ".gitignore").exists()


def test_the_folder_keeps_itself_out_of_repositories(writer, path, make):
    """The default store is in the app's folder; it must not be committed by accident."""
    writer.write(Batch((make.span(),)))
    assert (path.parent / ".gitignore").read_text() == "*\n"


def test_nothing_is_opened_before_the_first_write(path):
    """A process that records nothing leaves no file."""
    StoreWriter(path).close()
    assert not path.parent.exists()


@pytest.fixture
def read_only_folder():
    """A folder that this process cannot write, whoever runs the tests."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o555)
    was = os.geteuid()
    if was == 0:
        os.seteuid(65_534)
    yield folder
    os.seteuid(was)
    folder.chmod(0o700)
    folder.rmdir()


def is_directory(path):
    path.mkdir(parents=True)


def is_below_a_file(path):
    path.parent.parent.mkdir(exist_ok=True)
    path.parent.write_text("")


def is_garbage(path):
    path.parent.mkdir()
    path.write_bytes(b"no database at all " * 100)


def is_of_another_program(path):
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE theirs (x)")


def is_of_a_newer_release(path):
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as newer:
        newer.execute(f"PRAGMA application_id = {_schema.STORE.application_id}")
        newer.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (is_directory, "unable to open database file"),
        (is_below_a_file, "directory"),
        (is_garbage, "file is not a database"),
        (is_of_another_program, "it is a database of another program"),
        (is_of_a_newer_release, "it was written by a newer release (version 99"),
    ],
)
def test_a_path_that_cannot_be_the_store_is_replaced_by_memory(path, make, spoil, words):
    """Writing goes on in memory, one reason says why, and what is there is left as it was."""
    spoil(path)
    before = path.read_bytes() if path.is_file() else None
    span = make.span()
    with closing(StoreWriter(path)) as writer:
        assert writer.fallback_reason is None
        writer.write(Batch((span,), (make.evaluation(span),)))
        reason = writer.fallback_reason
        assert reason.startswith(f"{path}: ")
        assert words.lower() in reason.lower()
        assert reason.endswith("scores are kept in memory only")
        writer.write(Batch((make.span(),)))
        assert writer.fallback_reason == reason
        with closing(StoreReader(writer.location)) as reader:
            assert reader.counts().spans == 2
            assert reader.span(span.span_id) == span
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_read_only_disk_is_replaced_by_memory(read_only_folder, make):
    """A function in the cloud with a read-only disk keeps its scores for its own lifetime."""
    for path in (read_only_folder / "llmeval.db", read_only_folder / "own" / "llmeval.db"):
        with closing(StoreWriter(path)) as writer:
            writer.write(Batch((make.span(),)))
            assert (
                writer.fallback_reason
                == f"{path}: Permission denied; scores are kept in memory only"
            )


def test_memory_is_bounded(tmp_path, make):
    """The stand-in keeps the latest 32 MB, whatever the file was allowed."""
    (tmp_path / "file").write_text("")
    with closing(StoreWriter(tmp_path / "file" / "llmeval.db")) as writer:
        for _ in range(60):
            writer.write(Batch(tuple(make.span(request=make.text(13_000)) for _ in range(100))))
        with closing(StoreReader(writer.location)) as reader:
            assert 1_000 < reader.counts().spans < 3_400


def test_a_file_that_was_deleted_is_made_again(writer, path, make):
    """Deleting the store of a running app loses what was in it and nothing after."""
    writer.write(Batch((make.span(),)))
    for each in path.parent.glob("llmeval.db*"):
        each.unlink()
    span = make.span()
    writer.write(Batch((span,)))
    with closing(StoreReader(path)) as reader:
        assert reader.counts().spans == 1
        assert reader.span(span.span_id) == span


def test_a_full_disk_is_an_error_to_try_again(writer, make):
    """Delivery is told the reason and that later may be better; it then is."""
    writer.write(Batch((make.span(),)))
    with writer._database.use() as connection:
        connection.execute("PRAGMA max_page_count = 1").fetchall()
    big = Batch(tuple(make.span(request=make.text(50_000)) for _ in range(20)))
    with pytest.raises(ExportError, match="full") as caught:
        writer.write(big)
    assert (caught.value.reason, caught.value.retryable) == ("disk_full", True)
    with writer._database.use() as connection:
        connection.execute("PRAGMA max_page_count = 1000000").fetchall()
    writer.write(big)
    with closing(StoreReader(writer.path)) as reader:
        assert reader.counts().spans == 21


def test_a_locked_file_is_an_error_to_try_again(path, make):
    """Another process that never lets go costs the timeout, then delivery decides."""
    with closing(StoreWriter(path, busy_timeout=0.1)) as writer:
        writer.write(Batch((make.span(),)))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(ExportError, match="locked") as caught:
                writer.write(Batch((make.span(),)))
            other.execute("ROLLBACK")
        assert (caught.value.reason, caught.value.retryable) == ("store_locked", True)
        writer.write(Batch((make.span(),)))
        assert writer.fallback_reason is None


def test_a_store_that_was_torn_is_replaced_by_memory(writer, path, make):
    """A file overwritten while in use fails one batch at most and never the process."""
    writer.write(Batch((make.span(),)))
    writer.close()
    path.write_bytes(b"torn" * 5_000)
    writer.write(Batch((make.span(),)))
    assert "file is not a database" in writer.fallback_reason


def test_a_reader_says_what_is_wrong_with_a_path(path):
    """Reading has a person watching: a missing or strange file is an error that names it."""
    with pytest.raises(
        ConfigurationError, match=r"llmeval\.db cannot be read: there is no such file"
    ):
        StoreReader(path)
    is_garbage(path)
    with pytest.raises(ConfigurationError, match="file is not a database"):
        StoreReader(path)


def test_a_reader_never_writes(writer, path, make):
    """The connection of a reader refuses to change anything."""
    writer.write(Batch((make.span(),)))
    refused = pytest.raises(sqlite3.OperationalError, match="readonly")
    with closing(StoreReader(path)) as reader, reader._database.use() as connection, refused:
        connection.execute("DELETE FROM spans")


def test_a_store_on_a_read_only_disk_can_be_read(make):
    """A copied or archived store is readable where nothing can be written."""
    folder = Path(tempfile.mkdtemp())
    path = folder / "llmeval.db"
    with closing(StoreWriter(path)) as writer:
        writer.write(Batch((make.span(),)))
    path.chmod(0o444)
    folder.chmod(0o555)
    was = os.geteuid()
    if was == 0:
        os.seteuid(65_534)
    try:
        with closing(StoreReader(path)) as reader:
            assert reader.counts().spans == 1
    finally:
        os.seteuid(was)
        folder.chmod(0o700)
        path.unlink()
        folder.rmdir()


def test_the_exporter_says_once_that_it_kept_scores_in_memory(tmp_path, make, caplog):
    """One log line tells why the store is not a file."""
    from llmeval_sdk.config import Settings
    from llmeval_sdk.exporters.local import LocalExporter

    (tmp_path / "file").write_text("")
    exporter = LocalExporter(Settings(store=str(tmp_path / "file" / "llmeval.db")))
    with caplog.at_level(logging.WARNING, "llmeval_sdk"):
        exporter.export(Batch((make.span(),)))
        exporter.export(Batch((make.span(),)))
    exporter.close(1.0)
    assert len(caplog.records) == 1
    assert "scores are kept in memory only" in caplog.text


def is_open_to_all(path):
    path.parent.mkdir()
    path.parent.chmod(0o777)


def is_open_to_a_group(path):
    path.parent.mkdir()
    path.parent.chmod(0o770)


def is_a_file_for_all(path):
    with closing(StoreWriter(path)) as writer:
        writer.prune()
    path.chmod(0o666)


def has_a_log_for_all(path):
    with closing(StoreWriter(path)) as writer:
        writer.prune()
    path.with_name(f"{path.name}-wal").write_bytes(b"")
    path.with_name(f"{path.name}-wal").chmod(0o666)


def is_a_link(path):
    path.parent.mkdir(mode=0o700)
    (path.parent.parent / "theirs.db").touch()
    path.symlink_to(path.parent.parent / "theirs.db")


def is_a_linked_folder(path):
    (path.parent.parent / "real").mkdir(mode=0o700)
    path.parent.symlink_to(path.parent.parent / "real")


def is_in_a_folder_of_another_user(path):
    path.parent.mkdir(mode=0o700)
    os.chown(path.parent, 12_345, -1)


def belongs_to_another_user(path):
    with closing(StoreWriter(path)) as writer:
        writer.prune()
    os.chown(path, 12_345, -1)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no owners of files")
@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (is_open_to_all, "other users can write to its folder: give it a folder of its own below"),
        (is_open_to_a_group, "other users can write to its folder"),
        (is_a_file_for_all, "other users can write to it: take their right away, chmod go-w"),
        (has_a_log_for_all, "other users can write to the file llmeval.db-wal"),
        (is_a_link, "it is a symbolic link: name the file it leads to"),
        (is_a_linked_folder, "its folder is a symbolic link: name the folder it leads to"),
        (is_in_a_folder_of_another_user, "its folder belongs to user 12345, and this process"),
        (belongs_to_another_user, "it belongs to user 12345, and this process runs as"),
    ],
)
def test_what_others_could_have_put_there_is_not_written(path, make, plant, words):
    """Nothing users asked gets into a file or folder of others; it is kept in memory, and said."""
    if "chown" in plant.__code__.co_names and os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    plant(path)
    with closing(StoreWriter(path)) as writer:
        writer.write(Batch((make.span(request="a secret question"),)))
        assert words in writer.fallback_reason
        with closing(StoreReader(writer.location)) as reader:
            assert reader.counts().spans == 1
    for each in path.parent.parent.rglob("*"):
        assert each.is_dir() or b"secret question" not in each.read_bytes()


@pytest.mark.parametrize("plant", [is_a_file_for_all, has_a_log_for_all])
def test_what_others_could_have_written_is_not_read(path, plant):
    """A report over a store that anybody could have written is refused with a sentence."""
    plant(path)
    with pytest.raises(ConfigurationError, match="other users can write"):
        StoreReader(path)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o177, 0o777])
def test_the_umask_does_not_matter(tmp_path, make, umask):
    """Folders on the way, the file and what stands beside it are the owner's alone."""
    path = tmp_path / "a" / "b" / "llmeval.db"
    was = os.umask(umask)
    try:
        with closing(StoreWriter(path)) as writer:
            writer.write(Batch((make.span(),)))
            assert writer.fallback_reason is None
            assert {mode(each) for each in (path.parent, path.parent.parent)} == {0o700}
            files = list(path.parent.iterdir())
            assert len(files) >= 4
            assert {mode(each) for each in files} == {0o600}
    finally:
        os.umask(was)


def test_a_sticky_folder_for_all_will_do(tmp_path, make):
    """In a folder such as /tmp nobody else can remove or replace our file."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with closing(StoreWriter(shared / "llmeval.db")) as writer:
        writer.write(Batch((make.span(),)))
        assert writer.fallback_reason is None
    assert mode(shared / "llmeval.db") == 0o600


def mount_as_a_pod_does(volume, group):
    """Give all on a volume to a group, as kubelet does at each start of a pod with an fsGroup."""
    for each in (volume, *volume.rglob("*")):
        os.chown(each, -1, group)
        extra = 0o2770 if each.is_dir() else 0o660
        each.chmod(stat.S_IMODE(each.stat().st_mode) | extra)


@pytest.fixture
def volume(tmp_path):
    """The root of a Kubernetes volume: root's, open to the pod's fsGroup, which is one of ours."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    group, before = 23_456, os.getgroups()
    path = tmp_path / "volume"
    path.mkdir()
    tmp_path.chmod(0o755)
    os.setgroups([*before, group])
    mount_as_a_pod_does(path, group)
    yield path, group
    os.setgroups(before)


def test_a_volume_of_a_pod_works_at_each_start(volume, make):
    """A folder of our own below the volume's root is made 0700, and made so again after a mount."""
    root, group = volume
    path = root / "llmeval" / "llmeval.db"
    for start in range(1, 4):
        with closing(StoreWriter(path)) as writer:
            writer.write(Batch((make.span(),)))
            assert writer.fallback_reason is None
            assert mode(path.parent) == 0o700
            assert mode(path) == 0o600
        with closing(StoreReader(path)) as reader:
            assert reader.counts().spans == start
        mount_as_a_pod_does(root, group)
        assert mode(path.parent) == 0o2770
    with closing(StoreReader(path)) as reader:
        assert reader.counts().spans == 3


def test_the_root_of_a_volume_is_refused_with_what_to_do(volume, make):
    """All of the group could replace a file there; the sentence asks for a folder below it."""
    root, _ = volume
    os.chown(root, 12_345, -1)
    with closing(StoreWriter(root / "llmeval.db")) as writer:
        writer.write(Batch((make.span(),)))
        assert "give it a folder of its own below" in writer.fallback_reason


@pytest.mark.parametrize("spoil", ["a strange group", "open to all", "no inherited group"])
def test_a_folder_that_no_mount_has_opened_stays_refused(volume, make, spoil):
    """Only what looks as a pod's mount leaves it is closed again."""
    root, group = volume
    folder = root / "shared"
    folder.mkdir()
    strange = spoil == "a strange group"
    mount_as_a_pod_does(root, 34_567 if strange else group)
    folder.chmod({"open to all": 0o2777, "no inherited group": 0o770}.get(spoil, 0o2770))
    before = mode(folder)
    with closing(StoreWriter(folder / "llmeval.db")) as writer:
        writer.write(Batch((make.span(),)))
        assert "other users can write to its folder" in writer.fallback_reason
    assert mode(folder) == before


def test_what_another_of_the_group_put_there_is_refused(volume, make):
    """A file that somebody else left, while the folder was open, is not believed."""
    root, group = volume
    path = root / "llmeval" / "llmeval.db"
    with closing(StoreWriter(path)) as writer:
        writer.write(Batch((make.span(),)))
    mount_as_a_pod_does(root, group)
    os.chown(path, 12_345, -1)
    with closing(StoreWriter(path)) as writer:
        writer.write(Batch((make.span(),)))
        assert "other users can write to it" in writer.fallback_reason


def test_what_was_kept_in_memory_is_counted_and_told(tmp_path, monkeypatch, capsys):
    """stats(), the line at the end, `llmeval doctor` and the viewer say that a store was refused."""
    import llmeval_sdk as llmeval
    from llmeval_sdk.cli import main
    from llmeval_sdk.pipeline import runtime
    from llmeval_sdk.viewer._site import NoStoreError, Readers

    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv("LLMEVAL_STORE", str(folder / "llmeval.db"))
    with runtime.isolated():
        llmeval.configure(exporters=["local"])
        llmeval.workflow(lambda question: "a")("q")
        stats = llmeval.flush(10)
    account = stats.exporters["local"]
    assert account.in_memory == account.delivered > 0
    assert f"{account.in_memory} records kept in memory only" in stats.losses
    assert main(["doctor", "--offline"]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "other users can write to its folder" in told
    assert "kept in memory only" in told
    with pytest.raises(NoStoreError, match="other users can write"), Readers(None).lend():
        pass
