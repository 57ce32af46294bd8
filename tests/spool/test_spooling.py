"""When the pipeline's part in the spool may be said to have nothing left to do."""

from llmeval_sdk.pipeline._spooling import Spooling
from llmeval_sdk.spool import Folder


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
