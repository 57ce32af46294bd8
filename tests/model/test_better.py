"""An evaluator says itself which of its values are better, and every place goes by it."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import Batch, Evaluation, EvaluationEvent, Record, SpanData, Target
from llmeval_sdk.model import values as _values
from llmeval_sdk.offline.report.row import Row
from llmeval_sdk.offline.report.summary import failures
from llmeval_sdk.store.writer import StoreWriter


START = 1_767_225_600_000_000_000


@llmeval.heuristic(better="lower", automatic=False)
def toxicity_of_test(record: Record) -> float:
    """A score from 0 to 1 that is good at 0, though its name does not end so."""
    return 0.9 if "idiot" in (record.response or "") else 0.05


@llmeval.heuristic(better="lower", automatic=False)
def leaks_of_test(record: Record) -> bool:
    return "secret" in (record.response or "")


@llmeval.judge(better="higher", name="appetite_for_risk")
def appetite(record: Record, llm: llmeval.LLM) -> float:
    return 0.9


ROWS = [
    {"request_id": "good", "request": "q", "response": "Gladly."},
    {"request_id": "bad", "request": "q", "response": "You idiot, the secret is 7."},
]
NAMES = ["toxicity_of_test", "leaks_of_test"]


def test_what_is_declared_decides_what_is_good():
    """Numbers, bools and ratings; a declaration also overrules the ending of a name."""
    for name in ("toxicity_of_test", "leaks_of_test"):
        _values.declare(name, "lower")
    _values.declare("appetite_for_risk", "higher")
    assert _values.standing("toxicity_of_test", 0.9) == "bad"
    assert _values.standing("toxicity_of_test", 0.0) == "good"
    assert _values.standing("leaks_of_test", True) == "bad"
    assert _values.standing("leaks_of_test", "no") == "good"
    assert _values.standing("leaks_of_test", "skipped") == "neutral"
    assert _values.standing("appetite_for_risk", 0.9) == "good"
    assert _values.standing("some_other_risk", 0.9) == "bad"


def test_a_prompt_judge_declares_it_too():
    """It counts as soon as the judge is in use."""
    rude = llmeval.LLMJudge("rudeness_of_test", "Is it rude? {response}", better="lower")
    answer = json.dumps({"rationale": "seen", "rating": "yes"})
    report = llmeval.evaluate(ROWS, evaluators=[rude], llm=lambda _: answer)
    assert _values.standing("rudeness_of_test", "yes") == "bad"
    assert len(failures(report.rows[0])) == 1


def test_another_word_is_refused_at_once():
    """At the decorator, with the two that there are."""
    with pytest.raises(ConfigurationError, match="'lower' or 'higher'"):
        llmeval.heuristic(better="low")(failures)
    with pytest.raises(ConfigurationError, match="'lower' or 'higher'"):
        llmeval.judge(better="down", name="j")(lambda record, llm: 1.0)
    with pytest.raises(ConfigurationError, match="'lower' or 'higher'"):
        llmeval.LLMJudge("j", "Is it? {response}", better="less")


def test_a_comparison_goes_by_it():
    """More of what should be little is worse, and a row that got more regressed."""
    rows = [{**ROWS[1], "request_id": "good"}] * 30
    unique = [{**row, "request_id": f"r{number}"} for number, row in enumerate(rows)]
    good = [{**ROWS[0], "request_id": f"r{number}"} for number in range(30)]
    before = llmeval.evaluate(good, evaluators=NAMES)
    after = llmeval.evaluate(unique, evaluators=NAMES)
    verdicts = {change.path: change.verdict for change in after.compare(before).changes}
    assert verdicts == {"toxicity_of_test/average": "worse", "leaks_of_test/average": "worse"}
    assert after.compare(before).regressed == 30


def test_a_saved_report_says_it_to_other_processes(tmp_path):
    """A process that knows nothing of the app ranks its rows as the app does."""
    saved = tmp_path / "report.jsonl"
    llmeval.evaluate(ROWS, evaluators=NAMES, save=saved)
    again = tmp_path / "again.jsonl"
    llmeval.Report.load(saved).save(again)
    for path in (saved, again):
        printed = python(
            "import llmeval_sdk as llmeval\n"
            "from llmeval_sdk.offline.report.summary import worst\n"
            f"print(worst(llmeval.Report.load({str(path)!r}).rows, 1)[0].id)\n"
        )
        assert printed.strip() == "bad"


def stored(path, *events):
    with closing(StoreWriter(path, max_days=0)) as writer:
        for number, (name, value) in enumerate(events):
            span_id = f"{number + 1:016x}"
            span = SpanData(f"{number + 1:032x}", span_id, parent_id=None, name="answer",
                            kind="workflow", start_ns=START, end_ns=START + 1)  # fmt: skip
            target = Target(span.trace_id, span_id, span.name, span.kind)
            event = EvaluationEvent(f"{span_id}-e", target, Evaluation(name, value), START)
            writer.write(Batch((span,), evaluations=(event,)))


def python(*command):
    program = ["-c", *command] if len(command) == 1 else ["-m", "llmeval_sdk", *map(str, command)]
    done = subprocess.run(
        [sys.executable, *program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_store_says_it_to_the_command_line(tmp_path):
    """The worst request of a process that has never heard of the evaluator."""
    path = tmp_path / "llmeval.db"
    stored(path, ("toxicity_of_test", 0.1), ("toxicity_of_test", 0.9), ("toxicity_of_test", 0.5))
    run = ("traces", "--store", path, "--worst", "toxicity_of_test", "--json")
    values = [row["scores"]["toxicity_of_test"]["value"] for row in json.loads(python(*run))]
    assert values == [0.9, 0.5, 0.1]
    assert "toxicity_of_test 0.9" in python("traces", "--store", path)


def test_a_store_written_earlier_is_read_as_before(tmp_path):
    """Where nothing was declared, the name decides."""
    path = tmp_path / "llmeval.db"
    stored(path, ("unknown_of_test", 0.1), ("unknown_of_test", 0.9), ("own_risk", 0.2),
           ("own_risk", 0.8))  # fmt: skip
    for name, worst in (("unknown_of_test", 0.1), ("own_risk", 0.8)):
        run = ("traces", "--store", path, "--worst", name, "--json", "--limit", "1")
        assert json.loads(python(*run))[0]["scores"][name]["value"] == worst


def test_nothing_is_added_where_nothing_is_declared(tmp_path):
    """What evaluators without a declaration say is stored as it was."""
    _values.declare("leaks_of_test", "lower")
    path = tmp_path / "llmeval.db"
    stored(path, ("plain_of_test", 0.1), ("leaks_of_test", True))
    from llmeval_sdk.store.reader import StoreReader

    with StoreReader(path) as reader:
        (plain,) = reader.evaluations_of(f"{1:016x}")
        (declared,) = reader.evaluations_of(f"{2:016x}")
    assert plain.evaluation.metadata == {}
    assert declared.evaluation.metadata == {"better": "lower"}


def test_a_row_fails_by_what_is_declared():
    """A yes that should be a no went plainly wrong."""
    bad, good = (Row(Record(), {"leaks_of_test": Evaluation("leaks_of_test", each)})
                 for each in (True, False))  # fmt: skip
    assert (len(failures(bad)), failures(good)) == (1, [])
