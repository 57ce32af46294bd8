"""``llmeval report`` prints what the scores of a store say."""

import json
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from llmeval_sdk.model import (
    Batch,
    Evaluation,
    EvaluationEvent,
    Failure,
    NotRun,
    Target,
    Usage,
)
from llmeval_sdk.store.losses import Process


def fill(store):
    one, two, chat = store.span("01" * 8), store.span("02" * 8), store.span("03" * 8, "answer")
    store.evaluation(one, "context_precision", 0.25)
    store.evaluation(two, "context_precision", 0.75)
    store.evaluation(chat, "context_precision", None)
    store.evaluation(one, "agreement_pattern", "unanimous")
    store.evaluation(two, "agreement_pattern", "mixed")
    store.evaluation(chat, "agreement_pattern", "mixed")
    judged = {"evaluator_kind": "judge", "usage": Usage(9, 1, 10, 0.0025)}
    store.evaluation(one, "context_recall_llm", 1.0, inclusion_probability=0.25, **judged)
    store.evaluation(two, "context_recall_llm", 0.0, **judged)
    store.evaluation(chat, "context_recall_llm", None, error=Failure("timeout"), **judged)
    store.evaluation(one, "total_token_count", 1_200.0)
    store.evaluation(two, "total_token_count", 200.0)
    store.evaluation(one, "cites_a_page", True)
    store.not_run(one, "correctness", "not_sampled", "sample_rate 0")
    store.not_run(two, "correctness", "not_sampled", "sample_rate 0")
    store.not_run(chat, "safety", "no_judge_model")


def test_scores_are_shown_by_evaluator_and_span_name(llmeval, store):
    """Counts, means, shares, distributions, failures, costs and not-run reasons, as text."""
    fill(store)
    done = llmeval("report", "--store", store.path)
    assert done.stderr == ""
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == str(store.path)
    rows = [re.split(r" {2,}", line) for line in lines]
    assert rows[2:11] == [
        ["Scores"],
        ["evaluator", "span", "kind", "count", "mean", "distribution", "failed", "n/a", "cost"],
        ["agreement_pattern", "answer", "heuristic", "1", "-", "mixed 100%", "0", "0", "-"],
        ["agreement_pattern", "extract_field", "heuristic", "2", "-", "mixed 50%, unanimous 50%", "0", "0", "-"],
        ["cites_a_page", "extract_field", "heuristic", "1", "1.00", "pass 100%", "0", "0", "-"],
        ["context_precision", "answer", "heuristic", "0", "-", "-", "0", "1", "-"],
        ["context_precision", "extract_field", "heuristic", "2", "0.50", "··█····█··", "0", "0", "-"],
        ["context_recall_llm", "answer", "judge", "0", "-", "-", "1", "0", "$0.0025"],
        ["context_recall_llm", "extract_field", "judge", "2", "0.50 [0.80]", "█········█", "0", "0", "$0.0050"],
    ]  # fmt: skip
    assert rows[11][:6] == [
        "total_token_count",
        "extract_field",
        "heuristic",
        "2",
        "700",
        "█········█ 200..1,200",
    ]
    at = rows.index(["Judges, from eligible records to scores"])
    assert rows[at + 1 : at + 5] == [
        ["judge", "span", "eligible", "selected", "budgeted", "run", "scored", "mean", "all traffic (95 %)", "cost"],
        ["context_recall_llm", "answer", "0", "0", "0", "0", "0", "-", "-", "$0.0025"],
        ["context_recall_llm", "extract_field", "2", "2", "2", "2", "2", "0.50", "0.8 [0, 1]", "$0.0050"],
        ["correctness", "extract_field", "2", "0", "0", "0", "0", "-", "-", "-"],
    ]  # fmt: skip
    at = rows.index(["Judges that did not run"])
    assert rows[at : at + 4] == [
        ["Judges that did not run"],
        ["judge", "reason", "count", "latest detail"],
        ["correctness", "not_sampled", "2", "sample_rate 0"],
        ["safety", "no_judge_model", "1"],
    ]


def test_columns_stand_under_each_other(llmeval, store):
    """Every cell of a column begins, or ends, where its title does."""
    fill(store)
    lines = llmeval("report", "--store", store.path).stdout.splitlines()
    titles, rows = lines[3], lines[4:11]
    for word in ("span", "kind", "mean", "distribution"):
        assert all(row[titles.index(word) - 2 : titles.index(word)] == "  " for row in rows)
    end = titles.index("count") + len("count")
    assert all(row[end - 1].isdigit() and row[end] == " " for row in rows)


def test_what_never_arrived_elsewhere_is_told(llmeval, store):
    """The losses that the app's processes noted stand in the report, as text and as JSON."""
    fill(store)
    store.writer.note_losses(Process(1, 1), {"otlp": {"exporter_full": 1_200}})
    done = llmeval("report", "--store", store.path)
    assert re.search(r"otlp +exporter_full +1,200", done.stdout), done.stdout
    found = json.loads(llmeval("report", "--store", store.path, "--json").stdout)
    assert found["lost"] == {"otlp": {"exporter_full": 1_200}}


def test_the_report_begins_with_what_is_to_be_known_of_the_store(llmeval, store):
    """Whoever reads figures learns first that some are missing, as `llmeval doctor` says it."""
    fill(store)
    store.writer.note_losses(Process(time.time_ns(), 1), {"local": {"queue_full": 31_656}})
    head = llmeval("report", "--store", store.path).stdout.partition("Scores\n")[0]
    assert "PROBLEM: 31,656 records never reached the store since" in head
    assert "In this period: 31,656 records lost (queue_full 31,656): totals are at least" in head
    (finding,) = json.loads(llmeval("report", "--store", store.path, "--json").stdout)["findings"]
    assert (finding["is_problem"], finding["number"]) == (True, 31_656)


def test_json_holds_the_same(llmeval, store):
    """Scripts get numbers, not bars."""
    fill(store)
    found = json.loads(llmeval("report", "--store", store.path, "--json").stdout)
    assert found["store"] == str(store.path)
    by_name = {(each["evaluator"], each["span_name"]): each for each in found["scores"]}
    precision = by_name["context_precision", "extract_field"]
    assert precision["mean"] == 0.5
    assert precision["histogram"] == [0, 0, 1, 0, 0, 0, 0, 1, 0, 0]
    assert by_name["agreement_pattern", "extract_field"]["categories"] == {
        "mixed": 1,
        "unanimous": 1,
    }
    assert found["not_run"][0] == {
        "evaluator": "correctness", "reason": "not_sampled", "count": 2, "detail": "sample_rate 0",
    }  # fmt: skip


def test_a_report_can_be_narrowed(llmeval, store):
    """By evaluator, span name and time."""
    old = store.span("01" * 8, start_ns=time.time_ns() - 3 * 86_400 * 10**9)
    new = store.span("02" * 8, start_ns=time.time_ns() - 60 * 10**9)
    for span in (old, new):
        store.evaluation(span, "context_precision", 0.5)
        store.evaluation(span, "context_relevance", 0.5)

    def counts(*args):
        found = json.loads(llmeval("report", "--store", store.path, "--json", *args).stdout)
        return {each["evaluator"]: each["count"] for each in found["scores"]}

    assert counts() == {"context_precision": 2, "context_relevance": 2}
    assert counts("--since", "24h") == {"context_precision": 1, "context_relevance": 1}
    assert counts("--since", "7d", "--evaluator", "context_relevance") == {"context_relevance": 2}
    assert counts("--since", "2020-01-01T00:00Z")["context_precision"] == 2
    assert counts("--span-name", "answer") == {}


def test_a_time_that_is_none_is_a_usage_error(llmeval, store):
    """The message says which forms are understood."""
    done = llmeval("report", "--store", store.path, "--since", "yesterday")
    assert done.returncode == 2
    assert "'yesterday' is not a time: expected 90m, 24h, 7d or 2026-01-31T12:00" in done.stderr


def test_a_store_that_is_not_there_is_explained(llmeval, tmp_path):
    """The message names the file that was looked for and says how one comes to be."""
    done = llmeval("report")
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"llmeval report: no store at {tmp_path / '.llmeval' / 'llmeval.db'}\n"
    )
    assert "pass --store FILE" in done.stderr
    done = llmeval("report", LLMEVAL_STORE="~/nowhere/x.db")
    assert f"no store at {Path('~/nowhere/x.db').expanduser()}" in done.stderr


def test_a_file_that_is_no_store_is_explained(llmeval, tmp_path):
    """No traceback for a wrong path."""
    (tmp_path / "notes.txt").write_text("not a database, but long enough to look at" * 50)
    done = llmeval("report", "--store", "notes.txt")
    assert done.returncode == 2
    assert "notes.txt cannot be read: file is not a database" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_empty_store_is_no_failure(llmeval, store):
    """Nothing evaluated yet is said, and is all right; so is a filter that matches nothing."""
    store.writer.write(Batch())
    store.span("01" * 8)
    done = llmeval("report", "--store", store.path)
    assert (done.returncode, done.stdout.splitlines()[1]) == (0, "No evaluations yet.")
    done = llmeval("report", "--store", store.path, "--evaluator", "x")
    assert (done.returncode, done.stdout.splitlines()[1]) == (0, "No evaluations match.")


def test_names_cannot_steer_the_terminal(llmeval, store):
    """Escape sequences in names, categories and details are shown as text, on one line."""
    span = store.span("01" * 8, "\x1b]0;owned\x07name\nnext")
    store.evaluation(span, "a\x1b[2J", "\x1b[31mred")
    store.not_run(span, "judge\r", "error", "\x9b31m [bold]detail[/bold]")
    done = llmeval("report", "--store", store.path)
    assert done.returncode == 0
    assert not set(done.stdout) & set("\x1b\x07\r\x9b")
    assert r"\x1b[31mred 100%" in done.stdout
    assert "[bold]detail[/bold]" in done.stdout


def test_bars_are_ascii_where_the_output_is(process, store):
    """An ASCII terminal gets bars, not a UnicodeEncodeError."""
    fill(store)
    span = store.span("04" * 8, "naïve")
    store.evaluation(span, "context_precision", 0.5)
    done = process("report", "--store", store.path, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
    assert "..@....@.." in done.stdout
    assert r"na\xefve" in done.stdout


def on_a_terminal(*args, env):
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "llmeval_sdk", *args], stdout=terminal, stderr=terminal, env=env
    )
    os.close(terminal)
    said = b""
    try:
        while part := os.read(master, 65_536):
            said += part
    except OSError:  # the other end closed
        pass
    os.close(master)
    assert process.wait(30) == 0
    return said.decode()


def test_a_terminal_gets_the_table_that_a_file_gets(store):
    """Nothing colours it or frames it, and markup in names stays text."""
    span = store.span("01" * 8, "[red]field[/red]")
    store.evaluation(span, "precision", 0.5)
    env = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "COLUMNS": "140",
        "TERM": "xterm",
    }
    said = on_a_terminal("report", "--store", str(store.path), env=env)
    assert "\x1b" not in said
    assert "[red]field[/red]" in said


def test_a_reader_that_goes_away_is_no_traceback(store):
    """``llmeval report | head -1`` ends quietly."""
    with store.at_once():
        for number in range(200):
            span = store.span(f"{number:016x}", f"name {number}")
            store.evaluation(span, f"evaluator {number}", 0.5)
    command = f"{sys.executable} -m llmeval_sdk report --store {store.path} | head -1"
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, shell=True, env=env, capture_output=True, text=True, timeout=50)
    assert done.stdout == f"{store.path}\n"
    assert done.stderr == ""


DAY = 86_400 * 10**9
FIRST = 1_767_225_600_000_000_000
"""2026-01-01."""


def judge(store, *, records=400, bad=0.1, control=0.02, start_ns=FIRST, first=0, name="answer"):
    """A budgeted day: the riskiest fifth is judged, and every 50th of the rest."""
    events, refused = [], []
    for number in range(records):
        risky = number % 5 == 0
        span = Target("ab" * 16, f"{first + number:016x}", name, "workflow")
        at = start_ns + number * 10**9
        risk = Evaluation("groundedness_risk", 0.9 if risky else number % 7 / 20)
        events.append(EvaluationEvent(f"r{first + number}", span, risk, at))
        chance = 1.0 if risky else control
        if risky or (control and number % 50 == 1):
            said = "no" if risky and number % 100 < 100 * 5 * bad else "yes"
            verdict = Evaluation(
                "groundedness", said, evaluator_kind="judge", inclusion_probability=chance
            )
            events.append(EvaluationEvent(f"g{first + number}", span, verdict, at))
        else:
            refused.append(
                NotRun(f"n{first + number}", span, "groundedness", "not_escalated", "", at)
            )
    store.writer.write(Batch((), tuple(events), tuple(refused)))


def test_ratings_of_a_judge_speak_for_all_traffic(llmeval, store):
    """Half of the judged answers are bad but a tenth of all; yes and no count 1 and 0."""
    judge(store)
    found = json.loads(llmeval("report", "--store", store.path, "--json").stdout)["judged"]
    (row,) = found
    assert row["funnel"]["eligible"] == 400
    assert row["funnel"]["selected"] == row["funnel"]["scored"] == 88
    assert row["mean"] == pytest.approx(1 - 40 / 88)
    assert row["estimate"]["mean"] == pytest.approx(1 - 40 / 480)
    assert row["estimate"]["low"] < 0.9 < row["estimate"]["high"]
    assert "0.917 [0." in llmeval("report", "--store", store.path).stdout


@pytest.mark.parametrize(
    ("alert", "words"),
    [
        ("eror_rate>0.1", "nothing in the store is named 'eror_rate': did you mean 'error_rate'?"),
        ("contxt_precision<0.5", "nothing in the store is named 'contxt_precision': did you mean"),
        ("something_else_entirely<0.5", "nothing in the store is named 'something_else_entirely'"),
        ("correctness<0.5", "nothing was judged"),
        ("groundedness<0.5", "nothing was judged"),
    ],
)
def test_an_alert_on_a_name_that_nobody_knows_says_so(llmeval, store, alert, words):
    """A judge that is known, and judged nothing here, is no mistake."""
    fill(store)
    done = llmeval("report", "--store", store.path, "--alert", alert)
    assert done.returncode == 2
    said = " ".join(done.stdout.split())
    assert f"cannot be decided ({words}" in said
    assert ("would show a drop" in said) == (words == "nothing was judged")


def test_without_a_control_sample_nothing_is_said_about_the_rest(llmeval, store):
    """Judged records that were all certain to be judged cannot stand for those that never were."""
    judge(store, control=0.0)
    done = llmeval("report", "--store", store.path, "--alert", "groundedness<0.9")
    assert "no control sample: the mean describes the judged records only" in done.stdout
    assert "groundedness<0.9: cannot be decided (no control sample" in done.stdout
    assert done.returncode == 2


def test_an_alert_ends_with_1_when_the_whole_interval_lies_below(llmeval, store):
    """Above the bound, or across it, is no alert."""
    judge(store, records=4_000)

    def code(*bounds):
        alerts = [part for bound in bounds for part in ("--alert", bound)]
        return llmeval("report", "--store", store.path, *alerts).returncode

    assert code("groundedness<0.999") == 1
    assert code("groundedness<0.9") == 0
    assert code("groundedness>0.5") == 1
    assert code("groundedness<0.5", "groundedness<0.999") == 1
    assert code("groundednes<0.9") == 2
    done = llmeval("report", "--store", store.path, "--alert", "groundedness is bad")
    assert done.returncode == 2
    assert "expected 'groundedness<0.9'" in done.stderr


def test_labels_that_match_nothing_are_an_error(llmeval, store, tmp_path):
    """A name that nobody gave feedback under, or a file about other spans: a sentence, and 2."""
    judge(store, records=20)
    span = store.span("77" * 8)
    store.evaluation(span, "thumbs", "yes", evaluator_kind="human")
    file = tmp_path / "labels.jsonl"
    file.write_text('{"span_id": "elsewhere", "label": "yes"}\n')
    for labels, sentence in (
        ("thumps", "has feedback named 'thumps': there is thumbs"),
        (file, "none of the 1 labels of"),
    ):
        for form in ((), ("--json",)):
            done = llmeval("report", "--store", store.path, "--labels", labels, *form)
            assert done.returncode == 2
            assert sentence in " ".join(done.stderr.split())
            assert done.stdout == ""


def test_an_alert_may_be_about_a_free_score(llmeval, store):
    """A heuristic saw every record, so its mean needs no correction."""
    judge(store)
    args = ("report", "--store", store.path, "--alert", "groundedness_risk>0.2")
    assert llmeval(*args).returncode == 1


def test_a_trend_shows_each_period(llmeval, store):
    """The second day is worse, and each day has its own funnel."""
    judge(store)
    judge(store, start_ns=FIRST + DAY, first=10_000, bad=0.15)
    args = ("report", "--store", store.path, "--by", "day")
    found = json.loads(llmeval(*args, "--json").stdout)["trend"]
    assert [each["period_ns"] for each in found] == [FIRST, FIRST + DAY]
    assert found[0]["estimate"]["mean"] > found[1]["estimate"]["mean"]
    assert [each["funnel"]["eligible"] for each in found] == [400, 400]
    assert re.search(r"groundedness +answer +2026-01-02 +400 +88 ", llmeval(*args).stdout)


def test_records_that_abstained_stand_apart(llmeval, store):
    """No value is neither good nor bad: it is counted beside the scores, not among them."""
    for number, risk in enumerate((0.1, 0.8)):
        span = store.span(f"{number + 1:02d}" * 8)
        store.evaluation(span, "abstention_risk", risk, label="abstained")
        store.evaluation(span, "context_precision", 0.5)
    done = llmeval("report", "--store", store.path)
    scores, _, apart = done.stdout.partition("Abstained: no value was given")
    assert "abstention_risk" not in scores
    assert re.search(r"extract_field +2 +abstention_risk +0\.45", apart)


def test_without_an_abstention_there_is_no_such_table(llmeval, store):
    """Apps that extract nothing read nothing about it."""
    store.evaluation(store.span("01" * 8), "context_precision", 0.5)
    assert "Abstained" not in llmeval("report", "--store", store.path).stdout


@pytest.mark.parametrize(
    "command", [("report",), ("explain", "--last"), ("doctor", "--all", "--offline")]
)
def test_no_line_is_wider_than_the_terminal(command, store, tmp_path):
    """Sentences go on below where they began, and no word is broken."""
    fill(store)
    about = {"LLMEVAL_STORE": str(store.path), "PYTHONUTF8": "1", "TERM": "xterm", "COLUMNS": "80"}
    said = on_a_terminal(*command, env={**os.environ, **about})
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said).replace("\r", "").splitlines()
    assert len(lines) > 5
    assert [line for line in lines if len(line) > 80 and str(tmp_path) not in line] == []


def test_decisions_are_shown_with_their_mean_probability(llmeval, store):
    """Beside the mean of their ratings, apart from the judge model's of the same name."""
    judged = {"evaluator_kind": "judge", "inclusion_probability": 0.5}
    for number, (value, probability) in enumerate([("yes", 0.9), ("no", 0.3)]):
        decided = {"evaluator_kind": "decision", "probability": probability}
        store.evaluation(store.span(f"a{number:015x}"), "polite", value, **decided)
        store.evaluation(store.span(f"b{number:015x}"), "polite", "no", **judged)
    text = llmeval("report", "--store", store.path).stdout
    row = next(line for line in text.splitlines() if "  decision  " in line)
    assert "0.50, probability 0.60" in row
    row = next(line for line in text.splitlines() if "  judge  " in line)
    assert "probability" not in row
    found = json.loads(llmeval("report", "--store", store.path, "--json").stdout)
    means = {each["evaluator_kind"]: each["mean_probability"] for each in found["scores"]}
    assert means == {"decision": pytest.approx(0.6), "judge": None}


def test_the_tiers_of_a_cascade_are_shown(llmeval, store):
    """Each tier's share, and what the judge model changed; JSON has them too."""
    for number in range(10):
        span = store.span(f"{number + 1:016x}")
        store.evaluation(span, "safety", "yes", evaluator_kind="decision", probability=0.75)
        if number < 4:
            store.evaluation(span, "safety", "no" if number else "yes", evaluator_kind="judge")
        else:
            store.not_run(span, "safety", "not_escalated")
    done = llmeval("report", "--store", store.path)
    assert re.search(r"safety +extract_field +decision +10 +100.0% +0.75", done.stdout)
    assert re.search(r"^ +judge +4 +40.0%", done.stdout, re.MULTILINE)
    assert "changed 3 of the 4 answers that both gave (75%), 0 of them to good" in done.stdout
    (tier,) = json.loads(llmeval("report", "--store", store.path, "--json").stdout)["tiers"]
    assert (tier["decided"], tier["judged"], tier["changed"]) == (10, 4, 3)


def test_scores_that_gave_way_are_no_judge(llmeval, store):
    """They are counted by their reason, and no funnel says that nothing was judged."""
    span = store.span("01" * 8)
    store.evaluation(span, "context_precision", 0.25, inclusion_probability=0.5)
    store.not_run(store.span("02" * 8), "heuristics", "busy")
    done = llmeval("report", "--store", store.path)
    assert "nothing was judged" not in done.stdout
    assert "Judges, from" not in done.stdout
    assert re.search(r"heuristics +busy +1", done.stdout)
