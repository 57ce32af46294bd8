"""Whatever a single column of a store holds, no command that reads it ends in a traceback."""

import pytest
from damaged_stores import EACH_COMMAND, broken_by, make_sound_store


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return make_sound_store(tmp_path_factory.mktemp("sound"))


@EACH_COMMAND
def test_no_column_that_a_command_reads_breaks_it(sound, tmp_path, command):
    """Each column in turn holds in two rows what it cannot hold; commands take turns with what."""
    assert broken_by(command, sound, tmp_path) == []
