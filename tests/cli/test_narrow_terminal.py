"""Every command is readable on terminals of 80 and 60 columns: no line is longer, nothing is lost."""

import re

import pytest
from command_line import run_command

from llmeval_sdk.model import Chunk, Failure, Usage


LONG = "extraction_correctness_of_the_second_reviewer"
QUESTION = "What is the roof of the barn behind the old farmhouse made of, and since when is it so?"
URI = "https://docs.example/reports/2026/survey-of-the-barn-and-its-roof.pdf"
LATE = Failure("UpstreamServiceUnavailable", "no answer " * 20)


@pytest.fixture
def full(store):
    """Requests with long names, texts, failures and refusals."""
    with store.at_once():
        for number in range(12):
            span = store.span(
                f"{number + 1:016x}", "answer_the_question_of_a_customer", request=QUESTION,
                response="Slate, as far as the survey says. " * 6, trace_id=f"{number + 1:032x}",
                retrieved_context=(Chunk("The roof is of slate.", URI),), usage=Usage(1_200, 340),
                error=LATE if number == 3 else None,
                tags={"release": f"r-2026-11-2{number % 2 + 1}-with-a-long-name"},
                model_name=f"some-provider/some-very-long-model-name-2026-11-2{number % 2 + 1}",
            )  # fmt: skip
            store.evaluation(span, LONG, "no" if number % 3 else "yes", evaluator_kind="judge",
                             explanation="the value stands nowhere in the passages " * 5)  # fmt: skip
            store.evaluation(span, "groundedness", number / 12, evaluator_kind="judge")
            store.evaluation(span, "context_relevance", 0.1 + number / 20)
            store.evaluation(span, "broken_evaluator", None, error=Failure("timeout", "late " * 30))
            store.not_run(
                span, "correctness", "not_sampled", "rate 0.05 by the rule for correctness"
            )
    store.feedback(1, "thumbs", True)
    return store


@pytest.fixture
def terminal(full, tmp_path):
    """Run a command on a terminal of so many columns; returns what it printed."""

    def run(*args, columns=80, codes=(0,), **env):
        env = {"LLMEVAL_STORE": str(full.path), "COLUMNS": str(columns), "NO_COLOR": "1", **env}
        done = run_command(*args, folder=tmp_path, env=env, terminal=True)
        assert done.returncode in codes, done.stdout + done.stderr
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", done.stdout)

    return run


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(
        f'{{"request_id": "q-{"1" * 30}", "request": "{QUESTION}", "response": "Slate, surely.", '
        '"expected_response": "Slate.", "retrieved_context": [{"doc_uri": "x"}], '
        '"expected_retrieved_context": [{"doc_uri": "y"}]}\n'
    )
    return path


@pytest.fixture
def labelled(tmp_path):
    """Rows that people labelled, with a judge's verdicts on them."""
    path = tmp_path / "labelled.jsonl"
    path.write_text(
        "".join(
            f'{{"request_id": "q-{"1" * 30}{number}", "request": "{QUESTION}", "label": {number % 2}, '
            f'"score": 0.{number}, "{LONG}": "yes", "groundedness": 0.{number}}}\n'
            for number in range(1, 10)
        )
    )
    return path


@pytest.fixture
def verdicts(tmp_path):
    """Rows with a judge's probabilities and people's labels."""
    path = tmp_path / "verdicts.jsonl"
    row = '{{"request_id": "r{0}", "label": "{1}", "probability": 0.{0}, "model": "{2}"}}\n'
    model = "some-provider/some-very-long-model-name-2026-11-22"
    path.write_text(
        "".join(row.format(n, "yes" if n > 50 else "no", model) for n in range(10, 100))
    )
    return path


COMMANDS = {
    "traces": (LONG, "answer_the_question_of_a_customer", "UpstreamServiceUnavailable"),
    "traces --worst groundedness": ("groundedness", "answer_the_question_of_a_customer"),
    f"traces --worst {LONG}": (LONG,),
    "traces --failed": ("UpstreamServiceUnavailable",),
    "report": (LONG, "context_relevance", "thumbs"),
    "report --by user": ("(none)", "12"),
    "report --by tag:release --alert cost_usd.per_day>20": ("r-2026-11-21-with-a-long-name",),
    f"report --evaluator {LONG}": (LONG,),
    "explain --last": (LONG, "not_sampled", "since when is it so?"),
    "explain 0000000000000004": ("UpstreamServiceUnavailable",),
    "explain --worst groundedness": ("groundedness",),
    "doctor --offline": ("ok: scores go to the local store",),
    "doctor --offline --all": ("judge_concurrency",),
    "prune --dry-run": ("12",),
    "prune --max-days 9999": ("12",),
    "dataset add answers --last --worst groundedness": ("answers",),
    "dataset show answers": ("Slate",),
    "dataset list": ("answers",),
    "evaluate {rows} --evaluators exact_match,document_recall": ("exact_match", "document_recall"),
    "evaluate --from-store --evaluators context_relevance": ("context_relevance",),
    "evaluate {rows} --evaluators exact_match --fail-under exact_match/average=0.9": ("FAILED",),
    "watch --once --alert groundedness<0.9 --alert latency_seconds.p95>2": ("groundedness<0.9",),
    "watch --once --alert error_rate>0.02 --alert thumbs<0.9": ("error_rate>0.02",),
    f"watch --once --alert {LONG}<0.9": (LONG,),
    "judges {labelled}": ("kappa", "labelled records"),
    "compare --by model": ("no request has a model",),
    "compare --by tag:release": (LONG, "r-2026-11-21-with-a-long-name"),
    "judges {verdicts} --calibrate --evaluator polite --dry-run": (
        "labelled answers",
        "what its probabilities become",
    ),
    f"label {LONG} --list": ("wait for a label",),
    "demo --limit 1": ("distribution",),
    "--help": ("evaluate",),
}


WORDS = ("explain", "doctor", "label", "demo")
"""Commands that print words of more than 60 characters, such as paths and names of spans."""


@pytest.mark.parametrize(
    ("command", "columns"),
    [
        (command, columns)
        for command in COMMANDS
        for columns in (80, 60)
        if columns == 80 or not command.startswith(WORDS)
    ],
)
@pytest.mark.plugin("watch", "demo")
@pytest.mark.plugin("watch", "demo")
def test_no_line_is_longer_than_the_terminal(
    terminal, rows, labelled, verdicts, full, tmp_path, command, columns
):
    """And what a reader needs is there whole, or its end is marked as cut."""
    if command.startswith("dataset") and "add" not in command:
        terminal("dataset", "add", "answers", "--last")
    files = command.replace("{rows}", str(rows)).replace("{labelled}", str(labelled))
    files = files.replace("{verdicts}", str(verdicts))
    printed = terminal(*files.split(), columns=columns, codes=(0, 1, 2))
    places = (str(full.path.parent), str(tmp_path))
    too_long = [
        line
        for line in printed.splitlines()
        if len(line) > columns and not any(p in line for p in places)
    ]
    assert too_long == []
    joined = re.sub(r"\s+", "", printed)
    for word in COMMANDS[command]:
        assert word.replace(" ", "") in joined, printed
