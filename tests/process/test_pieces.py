"""Long texts are read in pieces that one call into C may read, and give what one call would give."""

import json
import marshal
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from llmeval_sdk.process import pieces
from llmeval_sdk.process.pieces import (
    MAX_READ,
    MAX_SEARCHED,
    end_of_run,
    find_all,
    json_text,
    pause_with,
    read_json,
    replace_all,
    windows,
)


SUPPORT = Path(__file__).resolve().parents[1] / "support"
PATTERNS = [r"\d{1,3}(?: \d{3})*", r"[a-c]{2,5}(?!\d)", r"(?<!a)b\d?", r"\ba\b", r"^a|2$"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_pieces_have_the_matches_of_the_whole_text(pattern, monkeypatch):
    """Also those at a cut, and those that look at what stands before and behind them."""
    monkeypatch.setattr(pieces, "MAX_SEARCHED", 40)
    compiled, chance = re.compile(pattern, re.MULTILINE), random.Random(1)
    for _ in range(2_000):
        text = "".join(chance.choice("ab 1,2c\n") for _ in range(chance.randint(0, 150)))
        start = chance.choice((0, 3))
        whole = [match.span() for match in compiled.finditer(text, start)]
        assert [m.span() for m in find_all(compiled, text, start, overlap=20)] == whole
        assert replace_all(compiled, lambda _: "!", text, overlap=20) == compiled.sub("!", text)


def test_a_match_that_is_longer_than_a_piece_ends_with_it():
    """Nothing of a text is left out, and nothing is read twice."""
    text = "a" * (3 * MAX_SEARCHED)
    spans = [match.span() for match in find_all(re.compile("a+"), text)]
    assert spans[0] == (0, MAX_SEARCHED)
    assert "".join(text[slice(*span)] for span in spans) == text
    assert end_of_run(re.compile("[ab]*"), f"{text}!", 5) == len(text)


def test_pieces_end_behind_a_blank():
    """Where there is none, they end anywhere; together they are the text."""
    for text in ("word " * 40, "x" * 200, "", "a b"):
        parts = list(pieces.pieces(text, 30))
        assert "".join(parts) == text
        assert max(map(len, parts)) <= 30
        assert all(part.endswith(" ") for part in parts[:-1]) or " " not in text


def test_windows_share_what_is_no_longer_than_the_overlap():
    """Whatever is that short stands whole in one of them."""
    data = random.Random(2).randbytes(3 * MAX_SEARCHED)
    parts = list(windows(data, 1_000))
    assert max(map(len, parts)) <= MAX_SEARCHED
    assert all(
        any(data[at : at + 1_000] in part for part in parts) for at in range(0, len(data), 997)
    )


@pytest.mark.parametrize("separators", [(",", ":"), None])
@pytest.mark.parametrize("in_order", [True, False])
def test_large_values_are_written_as_one_call_would_write_them(separators, in_order):
    """In calls that read so much at most."""
    sizes = []

    class Encoder(json.JSONEncoder):
        def encode(self, value):
            sizes.append(len(value) if isinstance(value, str) else len(marshal.dumps(value)))
            return super().encode(value)

    encoder = Encoder(separators=separators, sort_keys=in_order, ensure_ascii=False)
    value = {
        "text": 'é"\\\n😀' * MAX_READ, "rows": [{"b": "x" * 9_000, "a": None}] * 90, "list": (1, 2.5, True),
        "keys": {1: "x" * 10}, "": "", "same": "y",
    }  # fmt: skip
    text = json_text(encoder, value)
    assert max(sizes) <= MAX_READ
    assert text == json.dumps(value, separators=separators, sort_keys=in_order, ensure_ascii=False)


@settings(max_examples=400, deadline=None)
@given(st.text(), st.integers(0, 400))
@example('\\"\n\r\t\b\f\0\x1f\x7f\x80\u2028\ud800\udc00é😀', 100)
def test_a_long_text_is_written_as_the_encoder_writes_it(odd, place):
    """To the character, whatever signs it has, by an encoder that escapes letters and by others."""
    text = f"{'a' * place}{odd}{'b' * (400 - place)}"
    for encoder in (json.JSONEncoder(), json.JSONEncoder(ensure_ascii=False)):
        assert json_text(encoder, text) == encoder.encode(text)


def test_json_that_is_too_long_for_one_call_is_not_read():
    """It is as if it were none."""
    assert read_json("[1]") == [1]
    with pytest.raises(ValueError, match="characters of JSON"):
        read_json(" " * MAX_READ + "1")


def test_readers_pause_while_they_read_a_long_text():
    """On the threads that asked for it, and on no other."""
    count = 0

    def rest():
        nonlocal count
        count += 1

    pause_with(rest)
    try:
        list(find_all(re.compile("a"), "a " * 10_000))
        assert count > 100
        list(pieces.pieces("b " * MAX_SEARCHED))
    finally:
        pause_with(None)
    paused = count
    list(find_all(re.compile("a"), "a " * 10_000))
    assert count == paused


@pytest.mark.timeout(300)
def test_no_call_reads_more_than_it_may(tmp_path):
    """Capturing, redacting, scoring and storing texts of 300,000 characters, in a process of its own."""
    done = subprocess.run(
        [sys.executable, SUPPORT / "largest_reads.py", tmp_path / "store.db"],
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert "Error" not in done.stderr
    assert json.loads(done.stdout) == {}
