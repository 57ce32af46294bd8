"""The comparison with peers counts what arrives and shows what it measured."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.peers import sink
from benchmarks.peers.environments import CONTENDERS
from benchmarks.peers.show import chart, table


ROOT = Path(__file__).parents[1]


def child(adapter, url, call):
    """Run one process of the comparison in this environment."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.peers.child", adapter, url, call, "20", "0", "--flush"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def test_what_arrives_is_counted_once():
    """Each call has a mark; the sink finds it whatever the wire format."""
    with sink.running() as url:
        for adapter in ("ours", "otel"):
            created = child(adapter, url, "large")["created"]
            found = sink.count(url)
            assert found["records"] == created == 70
            assert found["bytes"] > 20_000
        child("nothing", url, "small")
        assert sink.count(url) == {"requests": 0, "bytes": 0, "records": 0}


def figures():
    """Return made-up figures; only some peers score."""
    one = {"p50": 1.25, "p99": 20.0, "cpu": 30.0, "exit": 0.5, "records": 70, "created": 70}
    cases = ("small", "large", "scored", "closed", "hanging")
    return {
        (each.adapter, case): one
        for each in CONTENDERS
        for case in cases
        if each.scores or case != "scored"
    }


def test_the_table_has_a_column_for_each_peer():
    """A figure that a peer cannot have is a dash, not a zero."""
    head, _, *rows = table(CONTENDERS, figures(), 3).splitlines()
    assert head.count("|") == len(CONTENDERS) + 2
    scoring = next(row for row in rows if "scoring" in row)
    scorers = sum(each.scores for each in CONTENDERS)
    assert scoring.count("1.2 / 20") == scorers
    assert scoring.count("–") == len(CONTENDERS) - scorers


def test_the_chart_stands_by_itself():
    """Its colours are its own: a page that shows it as an image gives it no variables."""
    drawn = chart(CONTENDERS, figures())
    assert "var(" not in drawn
    assert "ddtrace 4.16.0" in "".join(ElementTree.fromstring(drawn).itertext())
