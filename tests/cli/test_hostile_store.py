"""What strangers wrote into a store neither steers the operator's terminal nor breaks a command."""

import json

import pytest
from command_line import run_command


STEERING = "\x1b]0;owned\x07\x1b[2J\x1b]8;;http://evil.example\x1b\\here\x9b2J\u202etxet"


def _steers(text):
    return [
        c for c in text if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u2066")
    ]


@pytest.fixture
def visited(store):
    """Six answers with scores, and the feedback of a visitor who writes control sequences."""
    for n in range(6):
        span = store.span(
            f"{n + 1:02x}" * 8,
            request=f"q{n} {STEERING}",
            response=STEERING,
            tags={"team": STEERING},
        )
        store.evaluation(span, "groundedness", ["yes", "no"][n % 2], evaluator_kind="judge")
        word = STEERING if n < 3 else "good"
        store.evaluation(span, "mood", word, evaluator_kind="human", explanation=STEERING)
    return store


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize(
    "command",
    [
        ("judges", "--evaluator", "groundedness", "--feedback", "mood"),
        ("export",),
        ("export", "--format", "otlp"),
        ("report",),
        ("report", "--by", "tag:team"),
        ("traces",),
        ("explain", "01" * 8),
        ("explain", "01" * 8, "--json"),
    ],
    ids=" ".join,
)
def test_what_a_visitor_wrote_does_not_steer_the_terminal(visited, command, terminal):
    """Titles, cells, sentences and JSON have no control or bidirectional character as it is."""
    done = run_command(*command, "--store", visited.path, folder=visited.path.parent, terminal=terminal,
                       env={"TERM": "dumb", "NO_COLOR": "1"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "owned" in done.stdout or command == ("report",)
    assert not _steers(done.stdout)


def test_an_error_does_not_steer_the_terminal(llmeval, store):
    """Neither does the line on standard error that says why a command could not run."""
    store.span("01" * 8)
    done = llmeval("traces", "--store", f"no{STEERING}")
    assert done.returncode == 2
    assert "owned" in done.stderr
    assert not _steers(done.stderr)


def test_escaped_json_lines_are_the_same_json(llmeval, visited):
    """What the escapes of an export stand for is what the store holds."""
    row = json.loads(llmeval("export", "--store", visited.path).stdout.splitlines()[0])
    assert row["response"] == STEERING
