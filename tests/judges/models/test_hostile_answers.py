"""No server can make the app hold more than a small answer, or wait longer than it said."""

from __future__ import annotations

import json
import subprocess
import sys

import hostile_answers
import pytest
from hostile_answers import TRAPS, TrapServer


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads its memory from /proc")

GROWTH_MIB = 24
"""What any answer may add to the peak of the process: the bytes, their text, and what is parsed."""


@pytest.fixture(scope="module")
def fallen():
    """Have a process of its own fall into every trap; returns what it says of each."""
    with TrapServer() as server:
        done = subprocess.run(
            [sys.executable, hostile_answers.__file__, str(server.port)],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    return json.loads(done.stdout)


@pytest.mark.parametrize("way", ["chat", "embeddings"])
@pytest.mark.parametrize("trap", sorted(set(TRAPS) - {"good"}))
def test_a_trap_is_a_failure_within_bounds_of_memory_and_time(trap, way, fallen):
    """Bombs, endless, dripping and deeply nested bodies end as an error with its type."""
    kind, message, growth = fallen[trap][way]
    assert kind == ("timeout" if trap == "drip" else "malformed"), message
    assert growth < GROWTH_MIB


def test_what_was_refused_says_why(fallen):
    """The message names the limit or the encoding, so that a person can tell what to change."""
    assert "larger than 4 MiB" in fallen["endless"]["chat"][1]
    assert "larger than 4 MiB" in fallen["error-500"]["chat"][1]
    assert "larger than 4 MiB" in fallen["long"]["chat"][1]
    assert "encoded as gzip, gzip" in fallen["gzip-in-gzip"]["chat"][1]
    assert "encoded as deflate" in fallen["deflate"]["chat"][1]


def test_a_small_compressed_answer_is_read(fallen):
    """Compression itself is welcome."""
    assert fallen["good"]["chat"][0] == "good"
