"""``llmeval explain`` says what ran on one span, what failed, and what did not run and why."""

import pytest

from llmeval_sdk.model import Batch as Records
from llmeval_sdk.model import Chunk, Evaluation, EvaluationEvent, Failure, Target, Usage
from llmeval_sdk.policy.decisions import NOT_RUN_REASONS
from llmeval_sdk.store.reasons import REASONS, explain


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
      The budget for judge calls or money was used up.
      Raise LLMEVAL_BUDGET_CALLS_PER_MINUTE or LLMEVAL_BUDGET_USD_PER_DAY, or sample less.

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
        "No span whose id begins with 'ff' in this store.\n",
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
    assert r"  response half \ud83d" in done.stdout
    assert r"      line one line two\x1b[0m" in done.stdout
    assert "\x1b" not in done.stdout


def test_every_reason_has_its_words():
    """No judge goes without an explanation, not even one lost with its process."""
    assert {*NOT_RUN_REASONS, "worker_lost"} <= set(REASONS)
    for reason in REASONS.values():
        assert reason.meaning.endswith(".")
        assert reason.advice.endswith(".")
    assert explain("of a later release").advice == "See the detail."
