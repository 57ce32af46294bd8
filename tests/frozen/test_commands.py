"""The commands keep their options, and what scripts read of their output keeps its form.

``UPDATE_FROZEN=1 python -m pytest tests/frozen`` accepts a change.
"""

import argparse
import json

import pytest
from golden import golden
from shapes import columns, shape

import llmeval_sdk as llmeval
from llmeval_sdk.cli import _parser
from llmeval_sdk.testing.judge_server import JudgeServer


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def options_of(parser):
    found = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            continue
        name = ", ".join(action.option_strings) or action.dest
        found[name] = {
            "takes": action.nargs,
            "required": action.required,
            "default": repr(action.default),
            "choices": None if action.choices is None else sorted(action.choices),
        }
    return found


def commands_of(parser, path="llmeval"):
    yield path, options_of(parser)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from commands_of(below, f"{path} {name}")


def test_commands_keep_their_options(frozen):
    """A line in somebody's CI goes on to work: commands, options, what they take, defaults."""
    frozen("commands.json", dict(commands_of(_parser())))


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in golden()))
    return path


@pytest.fixture
def judge(monkeypatch):
    """A judge model that the environment names, and that answers by rules."""
    with JudgeServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("LLMEVAL_JUDGE_MODEL", "m")
        yield


def test_evaluate_keeps_its_json_and_its_lines(frozen, command, rows, judge, tmp_path):
    """`evaluate --json` and the report that `--save` writes have the keys they had."""
    saved = tmp_path / "saved.jsonl"
    names = "correctness,document_recall,context_relevance"
    run = ("evaluate", rows, "--evaluators", names, "--json", "--save", saved, "--no-progress")
    bound = ("--fail-under", "context_relevance/average=0.1")
    frozen("evaluate.json", shape(json.loads(command(*run, *bound, exits=1))))
    frozen("evaluate_saved.json", columns(lines(saved.read_text())))
    frozen("evaluate_compared.json", shape(json.loads(command(*run, "--compare", saved))))
    frozen("evaluate_columns.json", frame(saved))


def frame(saved):
    pytest.importorskip("pandas")
    return list(llmeval.Report.load(saved).to_pandas().columns)


def test_judges_keeps_its_json(frozen, command, store):
    """`judges --json` over the feedback of the store."""
    name = "extraction_correctness"
    run = ("judges", "--store", store, "--evaluator", name, "--feedback", name, "--json")
    frozen("agreement.json", shape(json.loads(command(*run))))


def test_commands_that_look_at_a_store_keep_their_json(frozen, command, store, tmp_path):
    """`explain`, `prune`, `doctor` and `dataset` print one document with the keys they had."""
    sets = ("--folder", tmp_path / "sets", "--json")
    runs = {
        "explain": ("explain", "--last", "--store", store, "--json"),
        "prune": ("prune", "--store", store, "--max-days", "99999", "--dry-run", "--json"),
        "doctor": ("doctor", "--offline", "--all", "--json"),
        "dataset add": ("dataset", "add", "some", "--last", "--store", store, *sets),
        "dataset list": ("dataset", "list", *sets),
        "dataset show": ("dataset", "show", "some", *sets),
    }
    documents = {name: json.loads(command(*run)) for name, run in runs.items()}
    documents["doctor"]["packages"] = sorted(documents["doctor"]["packages"])
    documents["doctor"]["sections"] = sorted(set(documents["doctor"]["sections"]) - {"Threads"})
    frozen("looking.json", {name: shape(document) for name, document in documents.items()})


def test_commands_on_traffic_and_verdicts_keep_their_json(frozen, command, store, rows, tmp_path):
    """Those that sum up, compare, watch and estimate; a line of each where they print several."""
    labelled = tmp_path / "labelled.jsonl"
    labelled.write_text("".join(json.dumps(row) + "\n" for row in verdicts()))
    on = ("--store", store)
    names = ("--evaluators", "correctness")
    priced = ("--price", "m=1,2", "--model-judge", "m")
    runs = {
        "report --by": (
            "report",
            "--by",
            "user",
            *on,
            "--alert",
            "latency_seconds.p95>1",
            "--json",
        ),
        "watch": ("watch", "--once", *on, "--alert", "latency_seconds.p95>1", "--json"),
        "compare": ("compare", "--by", "model", *on, "--json"),
        "judges --calibrate": (
            "judges",
            "--calibrate",
            labelled,
            "--evaluator",
            "polite",
            "--dry-run",
            "--json",
        ),
        "evaluate --estimate": ("evaluate", rows, *names, *priced, "--estimate", "--json"),
        "prune --user": ("prune", *on, "--user", "nobody", "--json"),
        "label --list": ("label", *on, "--list", "--json"),
    }
    shapes = {}
    for name, run in runs.items():
        first, *_ = command(*run, exits=EXITS.get(name, 0)).splitlines() or [""]
        shapes[name] = shape(json.loads(first))
    frozen("traffic.json", shapes)


def verdicts():
    """Return labelled probabilities of which a calibration can be made."""
    for number in range(10, 100):
        label = "yes" if number > 50 else "no"
        yield {
            "request_id": f"r{number}",
            "label": label,
            "probability": number / 100,
            "model": "m",
        }


EXITS = {"watch": 2, "compare": 1, "report --by": 2, "prune --user": 1}
"""Exit codes other than 0: nothing of the old store can be decided today, and nobody is nobody."""


def test_doctor_keeps_its_sections_and_settings(frozen, command):
    """`doctor --all` goes through the same things, and shows every setting with its source."""
    titles, shown = [], []
    blocks = command("doctor", "--offline", "--all").split("\n\n")
    for block in blocks[1:-1]:
        title, *rest = block.strip().splitlines()
        if title != "Threads":  # it is there only where gevent or eventlet is installed
            titles.append(title)
        if title == "Settings":
            shown = [line.split() for line in rest]
    assert blocks[-1].strip() == "Nothing is broken."
    found = {"sections": titles, "settings": sorted([line[0], line[-1]] for line in shown[1:])}
    frozen("doctor.json", found)
