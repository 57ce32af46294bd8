"""The whole demo, once in a process of its own, and what it says when it cannot run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from command_line import run_command

from llmeval_sdk import cli
from llmeval_sdk.model import Evaluation, SpanData
from llmeval_sdk.plugins.demo import command
from llmeval_sdk.plugins.demo.command import main
from llmeval_sdk.plugins.demo.session import Result, show_errors
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.traces import spans_like


pytest.importorskip("openai")


ROOT = Path(command.__file__).parents[3]


def demo(folder, *arguments):
    ours = ("LLMEVAL_", "DD_", "OTEL_", "OPENAI_")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    return subprocess.run(
        [sys.executable, "-m", "llmeval_sdk", "demo", *arguments],
        cwd=folder,
        env={**clean, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=50,
        check=False,
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    result = demo(folder, "--limit", "3", "--store", "traces.db")
    assert result.returncode == 0, result.stderr
    return folder, result.stdout


def test_json_is_one_document_on_standard_output(tmp_path):
    """The figures are those of the tables, which go to standard error."""
    done = run_command("demo", "--limit", "2", "--store", "traces.db", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert {"records", "outcomes", "scores", "not_run", "stats", "judge"} <= set(shown)
    assert shown["records"] == sum(sum(each.values()) for each in shown["outcomes"].values()) > 0
    assert "Extraction against ground truth" in done.stderr


@pytest.fixture(scope="module")
def reader(finished):
    with StoreReader(finished[0] / "traces.db") as opened:
        yield opened


def test_every_part_is_shown(finished):
    """Accuracy, scores, escalation, verdicts, errors, times and delivery are all there."""
    for heading in (
        "Extraction against ground truth",
        "Scores, mean by field",
        "Which score finds a wrong answer?",
        "Scores, mean by outcome",
        "Escalation: low recall or a hit limit",
        "Verdicts of stand-in",
        "The errors:",
        "what the SDK added to a request",
        "Delivery:",
    ):
        assert heading in finished[1]


def test_the_stand_in_is_called_one_wherever_it_speaks(finished, reader):
    """The introduction and the verdicts say that it is no model, and so does every rationale."""
    assert "The judge is a stand-in" in finished[1]
    assert "rules on shared words, no model" in finished[1]
    verdicts = [
        event.evaluation
        for ref in reader.read(lambda c: spans_like(c, "", 1000))
        for event in reader.evaluations_of(ref.span_id)
        if event.evaluation.evaluator_kind == "judge"
    ]
    for verdict in verdicts:
        assert verdict.metadata["model"] == "stand-in"
        assert (verdict.explanation or "").startswith(("stand-in", "Nothing was retrieved"))


def test_the_store_holds_what_the_tables_say(finished, reader):
    """The records counted in the first table are the requests in the store, each one graded."""
    requests = [
        ref for ref in reader.read(lambda c: spans_like(c, "", 1000)) if ref.name == "extract_field"
    ]
    graded = [
        event.evaluation.value
        for ref in requests
        for event in reader.evaluations_of(ref.span_id)
        if event.evaluation.name == "against_header"
    ]
    counts = Counter(graded)
    row = re.search(r"^all +(\d+) +(\d+) +(\d+) +(\d+)", finished[1], re.MULTILINE)
    assert row is not None
    records, *shown = map(int, row.groups())
    assert records == len(requests) == len(graded) > 5
    named = zip(("right", "wrong", "none"), shown, strict=True)
    assert {name: count for name, count in named if count} == counts


def test_each_request_has_its_steps_and_scores(reader):
    """A request is three spans, and the free scores stand on it."""
    ref = next(
        ref for ref in reader.read(lambda c: spans_like(c, "", 1000)) if ref.name == "extract_field"
    )
    spans = reader.trace(ref.trace_id)
    assert Counter(span.name for span in spans) == Counter(["extract_field", "search", "extract"])
    names = {event.evaluation.name for event in reader.evaluations_of(ref.span_id)}
    assert {"context_relevance", "context_precision", "context_recall_heuristic"} <= names
    assert {"aggregated_confidence", "semantic_validation", "against_header"} <= names


def test_everything_was_delivered(finished):
    """The account of the local exporter adds up, with nothing lost."""
    row = re.search(r"^local +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) +(\w+)", finished[1], re.MULTILINE)
    assert row is not None
    assert row[1] == row[2]
    assert row.groups()[2:] == ("0", "0", "0", "yes")


def test_the_commands_it_suggests_name_the_store_and_a_span(finished, reader):
    """What to try next can be copied: the store's path, and a span that is in it."""
    program = r"(?:llmeval|\S+ -m llmeval_sdk)"
    assert re.search(rf"^ +{program} report --store traces.db$", finished[1], re.MULTILINE)
    span = re.search(rf"{program} explain ([0-9a-f]{{16}}) --store traces.db", finished[1])
    assert span is not None
    assert reader.span(span[1]) is not None


def test_a_missing_library_is_named_with_its_extra(capsys, monkeypatch):
    """Without the extra the demo says what to install, and exits with 2."""
    monkeypatch.setattr(command, "NEEDED", ("no_such_library",))
    assert cli.main(["demo"]) == 2
    told = capsys.readouterr().err
    assert "no_such_library" in told
    assert "pip install 'llmeval-inprocess[demo]'" in told


@pytest.mark.parametrize("arguments", [["--limit", "0"], ["--limit", "x"], ["--fields", "licence"]])
def test_a_wrong_option_is_explained(capsys, arguments):
    """What cannot be used is refused with what can."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_switched_off_it_says_so(tmp_path):
    """With the SDK off there is nothing to show, and the message says why."""
    command = ("demo", "--limit", "1", "--fields", "license")
    result = run_command(*command, folder=tmp_path, env={"LLMEVAL_ENABLED": "false"})
    assert result.returncode == 2
    assert "LLMEVAL_ENABLED" in result.stderr


def answered(outcome, chance, number):
    """Return a request with an outcome, and the chance that its value is wrong."""
    span = SpanData(
        trace_id=f"{number:032x}", span_id=f"{number:016x}", parent_id=None, name="extract_field",
        kind="workflow", start_ns=1, end_ns=2, response=f"value {number}", tags={"field": "license"},
    )  # fmt: skip
    said = (
        Evaluation("extraction_risk", chance, explanation="it stands in none of the passages"),
        Evaluation("against_header", outcome, explanation="header: MIT"),
    )
    return Result(span, {each.name: each for each in said})


def test_the_demo_ends_with_the_errors_it_found_and_those_it_missed(capsys):
    """Both are counted and listed, with the looks at right answers that finding them takes."""
    rows = [("wrong", 0.9), ("wrong", 0.4), ("wrong", 0.1), ("right", 0.3), ("right", 0.02)]
    show_errors([answered(*row, number) for number, row in enumerate(rows)])
    text = " ".join(capsys.readouterr().out.split())
    assert "The errors: 2 found, 1 missed" in text
    assert "found 0.90 license value 0 MIT it stands in none of the passages" in text
    assert "missed 0.10 license value 2 MIT" in text
    assert "3 looks at 5 answers, 1 of them at right ones" in text


def test_an_answer_that_was_not_scored_is_not_found(capsys):
    """A score that failed or never ran must not look like one that doubted the answer."""
    show_errors([answered("wrong", None, 0), answered("right", 0.1, 1)])
    text = " ".join(capsys.readouterr().out.split())
    assert "The errors: 0 found, 1 missed" in text
    assert "missed - license value 0 MIT" in text


def test_a_run_without_errors_says_so(capsys):
    """Otherwise the end of the demo would look as if it had not been reached."""
    show_errors([answered("right", 0.1, 0)])
    assert "The errors: 0 found, 0 missed" in capsys.readouterr().out
