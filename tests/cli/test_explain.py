"""``llmeval explain`` says what ran on one span, what failed, and what did not run and why."""

import json
import os
import re
import subprocess
import sys

import pytest

from llmeval_sdk.model import Batch as Records
from llmeval_sdk.model import Chunk, Evaluation, EvaluationEvent, Failure, Target, Usage
from llmeval_sdk.statistics.reasons import NOT_RUN_REASONS, REASONS, explain


EXPECTED = """\
extract_field (workflow), span 00f067aa0ba902b7
  trace    abababababababababababababababab
  began    2026-01-01 00:00:00.000 UTC, took 12 ms
  failed   ValueError: no roof
  request  {"field": "roofType"}
  response tiled
  chunks   2

Ran
  context_precision  0.60 good  [heuristic v1, 8 µs]
  cites_a_page  fail  [heuristic v2]
      no page is named
  document_recall  n/a (not applicable)  [heuristic v1]
  context_recall_llm  0.45  [judge v1, 1.20 s, 1,234 tokens, $0.0012, chance to run 0.02]

Failed
  groundedness  malformed: no JSON in the answer  [judge v1]
      The detail names the error; `llmeval doctor` checks the model's endpoint.

Did not run
  correctness  missing_inputs (expected_facts|expected_response)  [not eligible]
      The record lacks something that this judge needs.
      Annotate the missing field on the span, e.g. llmeval.annotate(request=..., response=...).
  safety  over_budget  [not budgeted]
      The budget for judge calls or money was used up, or its books could not be read.
      Raise LLMEVAL_BUDGET_CALLS_PER_MINUTE or LLMEVAL_BUDGET_USD_PER_DAY, or sample less; where a Redis or a ledger is named, see `llmeval doctor --all`.

People said
  helpful  pass  [human v1]
"""


def fill(store):
    span = store.span(
        "00f067aa0ba902b7",
        request={"field": "roofType"},
        response="tiled",
        retrieved_context=(Chunk("a"), Chunk("b")),
        error=Failure("ValueError", "no roof"),
    )
    store.evaluation(span, "context_precision", 0.6, label="good", duration=8e-6)
    store.evaluation(
        span, "cites_a_page", False, evaluator_version="2", explanation="no page is named"
    )
    store.evaluation(span, "document_recall", None)
    judge = {"evaluator_kind": "judge"}
    store.evaluation(
        span, "context_recall_llm", 0.45, duration=1.2, usage=Usage(1_200, 34, 1_234, 0.0012),
        inclusion_probability=0.02, **judge,
    )  # fmt: skip
    store.evaluation(
        span, "groundedness", None, error=Failure("malformed", "no JSON in the answer"), **judge
    )
    store.not_run(span, "groundedness", "error", "malformed: no JSON in the answer")
    store.not_run(span, "correctness", "missing_inputs", "expected_facts|expected_response")
    store.not_run(span, "safety", "over_budget")
    store.evaluation(span, "helpful", True, evaluator_kind="human")


def test_all_that_is_known_of_a_span_is_shown(llmeval, store):
    """The span, what ran, what failed once, what did not run with advice, and what people said."""
    fill(store)
    done = llmeval("explain", "00f067aa0ba902b7", "--store", store.path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == EXPECTED


def test_the_doubtful_fields_of_an_answer_are_listed(llmeval, store):
    """Each with its value, its chance of an error and the reason; the others are counted."""
    span = store.span("00f067aa0ba902b7", response={"total": "41.50", "tax": "3.32"})
    entries = [
        {"path": "total", "value": "41.50", "chance": 0.97, "reason": "it stands under 'Subtotal'"},
        {"path": "tax", "value": "3.32", "chance": 0.05, "reason": None},
        {"path": "note", "value": "", "chance": None, "reason": "the answer has no value"},
    ]
    metadata = {"fields": entries, "expected_wrong": 1.02}
    store.evaluation(span, "extraction_risk", 0.97, metadata=metadata)
    shown = llmeval("explain", "00f067aa0ba902b7", "--store", store.path).stdout
    assert "total = '41.50': 0.97, it stands under 'Subtotal'\n" in shown
    assert "3 fields, 1 doubtful, 1 not checked; expected wrong: 1.0\n" in shown
    assert "3.32:" not in shown


@pytest.mark.parametrize("prefix", ["00f0", "00F067AA0BA902B7", " 00f067 "])
def test_the_beginning_of_an_id_is_enough(llmeval, store, prefix):
    """However it was pasted."""
    fill(store)
    assert llmeval("explain", prefix, "--store", store.path).stdout == EXPECTED


def test_a_beginning_that_fits_several_spans_lists_them(llmeval, store):
    """The user chooses; the exit code says that nothing was explained."""
    store.span("aa00000000000001")
    store.span("aa00000000000002", "answer")
    done = llmeval("explain", "aa", "--store", store.path)
    assert done.returncode == 1
    assert done.stdout == (
        "Several spans begin with 'aa':\n"
        "  aa00000000000001  extract_field  2026-01-01 00:00:00.000 UTC\n"
        "  aa00000000000002  answer  2026-01-01 00:00:00.000 UTC\n"
    )


def test_a_span_that_is_not_there_is_a_finding(llmeval, store):
    """Exit code 1, and the message says what was looked for."""
    store.span("aa00000000000001")
    done = llmeval("explain", "ff", "--store", store.path)
    assert (done.returncode, done.stdout) == (
        1,
        "No span or trace whose id begins with 'ff' in this store.\n`llmeval traces` lists them.\n",
    )


def test_a_span_that_nobody_evaluated_says_why(llmeval, store):
    """Only workflow and agent spans, and those that asked, are evaluated."""
    store.span("aa00000000000001", kind="llm")
    done = llmeval("explain", "aa", "--store", store.path)
    assert done.returncode == 0
    assert (
        "Nothing was evaluated on this span: evaluators run on workflow and agent spans"
        in done.stdout
    )


def test_scores_without_their_span_are_explained_too(llmeval, store):
    """A span that was dropped may still have been judged."""
    target = Target("cd" * 16, "bb00000000000001", "answer", "workflow")
    event = EvaluationEvent("x", target, Evaluation("safety", "yes", evaluator_kind="judge"), 1)
    store.writer.write(Records(evaluations=(event,)))
    done = llmeval("explain", "bb", "--store", store.path)
    assert done.returncode == 0
    assert done.stdout == (
        "answer, span bb00000000000001\n"
        "  the span itself is not in the store; it was dropped, or its trace was pruned\n"
        "\nRan\n  safety  yes  [judge v1]\n"
    )


def test_texts_cannot_steer_the_terminal(llmeval, store):
    """What users and models wrote is shown as text."""
    span = store.span("aa00000000000001", request="\x1b[2Jgone", response="half \ud83d")
    store.evaluation(span, "polite", "no", explanation="line one\nline two\x1b[0m")
    done = llmeval("explain", "aa", "--store", store.path)
    assert done.returncode == 0
    assert r"  request  \x1b[2Jgone" in done.stdout
    assert "  response half ?" in done.stdout
    assert r"      line one line two\x1b[0m" in done.stdout
    assert "\x1b" not in done.stdout


def test_every_reason_has_its_words():
    """No judge goes without an explanation, not even one lost with its process."""
    assert {*NOT_RUN_REASONS, "worker_lost"} <= set(REASONS)
    for reason in REASONS.values():
        assert reason.meaning.endswith(".")
        assert reason.advice.endswith(".")
    assert explain("of a later release").advice == "See the detail."


def three(store):
    """Fill a store with three traces; the second has a span below its root, the third is the last."""
    for number, (risk, rating) in enumerate(((0.2, "yes"), (0.9, "no"), (0.4, "yes")), 1):
        trace = f"{number:032x}"
        at = 1_767_225_600_000_000_000 + number * 1_000_000_000
        root = store.span(
            f"{number:016x}", trace_id=trace, start_ns=at, request=f"question {number}"
        )
        store.evaluation(root, "groundedness_risk", risk)
        store.evaluation(root, "groundedness", rating, evaluator_kind="judge")
        below = store.span(f"{number + 16:016x}", "search", trace_id=trace, start_ns=at + 1,
                           parent_id=root.span_id, kind="retrieval")  # fmt: skip
    return below


def test_a_trace_id_is_explained_by_its_scored_span(llmeval, store):
    """The id that logs and other tools show will do; the other spans are named."""
    three(store)
    done = llmeval("explain", "0" * 31 + "2", "--store", store.path)
    assert done.returncode == 0
    assert done.stdout.startswith("extract_field (workflow), span 0000000000000002\n")
    assert "Other spans of this trace\n  0000000000000012  search\n" in done.stdout


@pytest.mark.parametrize(
    ("which", "span"),
    [
        (("--last",), "3"),
        (("--worst", "groundedness_risk"), "2"),
        (("--worst", "groundedness"), "2"),
    ],
)
def test_nobody_needs_an_id_to_begin(llmeval, store, which, span):
    """The latest request, and the worst by a risk or by a judge's word, are explained at once."""
    three(store)
    done = llmeval("explain", *which, "--store", store.path)
    assert done.returncode == 0
    assert f"span 000000000000000{span}\n" in done.stdout


def test_an_evaluator_that_said_nothing_has_no_worst(llmeval, store):
    """That is a finding with a sentence."""
    three(store)
    done = llmeval("explain", "--worst", "safety", "--store", store.path)
    assert done.returncode == 1
    assert "safety has scored no request of this store" in " ".join(done.stdout.split())


def test_traces_lists_the_ids_that_explain_takes(llmeval, store):
    """Newest first, with the request and what is bad about it."""
    three(store)
    rows = [
        " ".join(line.split())
        for line in llmeval("traces", "--store", store.path).stdout.splitlines()
    ]
    assert [row.partition(" ")[0][-1] for row in rows[1:]] == ["3", "2", "1"]
    assert rows[2].endswith("question 2 no answer, groundedness no, groundedness_risk 0.90")
    worst = llmeval("traces", "--worst", "groundedness_risk", "--limit", "1", "--store", store.path)
    assert worst.stdout.splitlines()[1].startswith("0000000000000002")
    found = json.loads(llmeval("traces", "--json", "--store", store.path).stdout)
    assert found[1]["scores"]["groundedness"] == {"value": "no"}
    assert found[1]["trace_id"] == "0" * 31 + "2"


@pytest.mark.parametrize("command", [("report",), ("traces",)])
@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_breaks_no_word_and_no_histogram(store, command, width):
    """On 80 columns no line is longer, and every name, number and bar stands whole in one line."""
    three(store)
    long = store.span("ab" * 8, "extract_all_the_fields_of_a_document", request="a question " * 9)
    store.evaluation(long, "a_heuristic_with_a_name_of_some_length", 0.25)
    lines = on_terminal(command, store.path, width)
    assert all(len(line) <= width for line in lines if str(store.path) not in line)
    text = "\n".join(lines)
    assert "extract_all_the_fields_of_a_document" in text
    if command == ("report",):
        assert "a_heuristic_with_a_name_of_some_length" in text
        assert "··█·······" in text


def on_terminal(command, store, width):
    """Run a command on a terminal of some width; returns the lines without colours."""
    process = subprocess.Popen(
        [sys.executable, "-c", _ON_TERMINAL, *command, "--store", str(store)],
        stdout=subprocess.PIPE, text=True, encoding="utf-8",
        env={**os.environ, "PYTHONUTF8": "1", "TERM": "xterm", "COLUMNS": str(width)},
    )  # fmt: skip
    out, _ = process.communicate(timeout=50)
    return re.sub(r"\x1b\[[0-9;]*m", "", out).splitlines()


_ON_TERMINAL = """
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.executable, [sys.executable, "-m", "llmeval_sdk", *sys.argv[1:]])
found = b""
while True:
    try:
        part = os.read(terminal, 65536)
    except OSError:
        break
    if not part:
        break
    found += part
os.waitpid(pid, 0)
sys.stdout.buffer.write(found.replace(b"\\r", b""))
"""


def test_what_a_stand_in_said_is_called_that(llmeval, store):
    """Rules that count words are no model, in explain as in the report."""
    span = store.span("cd" * 8)
    store.evaluation(span, "safety", "yes", evaluator_kind="judge", metadata={"model": "stand-in"})
    assert (
        "by the rule-based stand-in, not a model"
        in llmeval("explain", "--last", "--store", store.path).stdout
    )
    report = llmeval("report", "--store", store.path).stdout
    assert "safety: judged by the rule-based stand-in, which is no model." in report


def test_a_stand_in_that_failed_judged_nothing(llmeval, store):
    """The report does not say who judged where nothing was judged."""
    store.evaluation(
        store.span("cd" * 8),
        "safety",
        None,
        evaluator_kind="judge",
        error=Failure("malformed", "no label"),
        metadata={"model": "stand-in"},
    )
    assert "judged by" not in llmeval("report", "--store", store.path).stdout


def test_a_decision_says_how_probably_it_is_good(llmeval, store):
    """With the kind of its model."""
    span = store.span("00f067aa0ba902b7")
    store.evaluation(span, "polite", "yes", evaluator_kind="decision", probability=0.875)
    told = llmeval("explain", "00f067aa0ba902b7", "--store", store.path).stdout
    assert "polite  yes  [decision v1, good with probability 0.875]" in told
