"""What is written: nothing of a row comes to life, nothing else is written over, a stand-in says so."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.cli import main
from llmeval_sdk.judges.models import OpenAILLM
from llmeval_sdk.testing import FakeLLM


CORRECT = "response/llm_judged/correctness/rating/percentage"
ALIVE = [
    "![seen](https://evil.example/pixel.png)",
    "[click](javascript:alert(1))",
    "<https://evil.example>",
    "https://evil.example/a",
    "www.evil.example",
    "thanks @torvalds and @github/security",
    "fixes #1 and evil/repo#2, GH-3",
    "a `code` and `` `more` `` | a cell",
    "<img src=x onerror=alert(1)>",
    "x\n| y | z |",
    "5e8f2ab9c1d0",
]


def code_free(line):
    """Take the code spans out of a line: what is left can come to life."""
    return re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", line)


@pytest.mark.parametrize("text", ALIVE)
def test_markdown_shows_rows_as_code_or_as_plain_words(text):
    """Links, images, mentions, references and tags of a row are dead, and its cell ends as ours."""
    row = {"request_id": text, "request": text, "response": "r", "expected_response": "e"}
    llm = FakeLLM({"rationale": text, "rating": "no"})
    report = llmeval.evaluate([row], evaluators=["correctness"], llm=llm)
    (line,) = [line for line in report.to_markdown().splitlines() if "correctness: no" in line]
    left = code_free(line)
    assert not re.search(r"[@#<\[\]!]|://|www\.|[0-9a-f]{7}", left)
    assert len(re.findall(r"(?<!\\)\|", line)) == 4


def test_markdown_titles_and_checks_are_dead_too():
    """A category that a judge made up, or the name of a run, stands in sentences of ours."""
    bad = "@torvalds see [x](https://evil.example) #1"

    @llmeval.judge
    def tone(record: llmeval.Record, llm: llmeval.LLM):
        return bad

    rows = [{"request": "q", "response": "r"}]
    report = llmeval.evaluate(rows, evaluators=[tone], llm=FakeLLM())
    text = report.to_markdown(at_least={f"tone/{bad}/percentage": 2})
    (line,) = [line for line in text.splitlines() if "FAILED" in line]
    assert not re.search(r"@t|#1|://|(?<!\\)\[", line)


def test_the_page_forbids_to_load_and_to_run(rows):
    """By its own policy, beside the escaping."""
    page = llmeval.evaluate(rows).to_html()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert page.index("Content-Security-Policy") < page.index("<style")


@pytest.fixture
def evaluate(tmp_path, monkeypatch, write, rows, capsys):
    """Run the command in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    data = write(rows)

    def call(*args):
        code = main(["evaluate", str(data), "--evaluators", "document_recall", *map(str, args)])
        return code, capsys.readouterr().err

    return call


@pytest.mark.parametrize("form", ["html", "markdown", "junit"])
def test_no_output_is_written_over_what_is_no_report(evaluate, tmp_path, form):
    """A slip of the pen costs no file: exit code 2, before anything runs; reports are renewed."""
    path = tmp_path / "out"
    path.write_text("my thesis")
    code, err = evaluate(f"--{form}", path)
    assert (code, path.read_text()) == (2, "my thesis")
    assert "is not overwritten" in err
    assert not (tmp_path / "store" / "reports").exists()
    path.write_text("")
    assert evaluate(f"--{form}", path)[0] == 0
    first = path.read_text()
    assert evaluate(f"--{form}", path)[0] == 0
    assert path.read_text() == first
    other = "junit" if form == "html" else "html"
    assert evaluate(f"--{other}", path)[0] == 2


def test_two_outputs_need_two_names(evaluate):
    """Else the later one would be all there is."""
    code, err = evaluate("--html", "a", "--junit", "a")
    assert (code, "another output has this name" in err) == (2, True)


def test_what_a_stand_in_rated_says_so_everywhere(rows, judge):
    """Page, Markdown, JUnit and the rows: its figures are rules on shared words, and no judgement."""
    llm = OpenAILLM("gpt-4o", base_url=judge.base_url, api_key="none")
    report = llmeval.evaluate(rows, evaluators=["correctness", "document_recall"], llm=llm)
    assert report.rows[0].evaluations["correctness"].metadata["model"] == "stand-in"
    said = "correctness rated by a stand-in, no model"
    bounds = {CORRECT: 0.9, "retrieval/ground_truth/document_recall/average": 0.1}
    page, text = report.to_html(at_least=bounds), report.to_markdown(at_least=bounds)
    assert said in page
    assert "no (stand-in)" in page
    assert page.count("by a stand-in, no model</span>") == 1, "the judge's metric, not the other"
    assert said in text
    assert f"| `{CORRECT}` (by a stand-in, no model) |" in text
    assert "(6 rows rated), by a stand-in, no model" in text
    xml = ElementTree.fromstring(report.to_junit())
    assert said in xml.find(".//property").get("value")
    assert "by a stand-in, no model" in xml.find(".//failure").text


def test_what_a_stand_in_rated_says_so_in_the_terminal(rows, judge, write, capsys, tmp_path):
    """Also where the verdict was kept from an earlier run, and in a saved report."""
    args = ["evaluate", str(write(rows)), "--evaluators", "correctness", "--model-judge", "gpt-4o"]
    for _ in range(2):
        assert main([*args, "--save", str(tmp_path / "r.jsonl")]) == 0
        out = capsys.readouterr().out
        assert f"{CORRECT} (by a stand-in, no model)" in out
    loaded = llmeval.Report.load(tmp_path / "r.jsonl")
    assert "rated by a stand-in, no model" in loaded.to_markdown()


def test_a_model_is_no_stand_in(rows):
    """Nothing is said of what a model rated."""
    llm = FakeLLM({"rationale": "r", "rating": "yes"})
    report = llmeval.evaluate(rows, evaluators=["correctness"], llm=llm)
    assert "stand-in" not in report.to_markdown() + report.to_html() + report.to_junit()


def test_the_page_puts_a_failure_first(rows):
    """The check that failed, the row that it failed on, and its metric, before all that went well."""
    llm = FakeLLM(
        lambda messages: {
            "rationale": "seen",
            "rating": "no" if "slate 4" in messages[-1].content else "yes",
        }
    )
    report = llmeval.evaluate(rows, evaluators=["document_recall", "correctness"], llm=llm)
    bounds = {"retrieval/ground_truth/document_recall/average": 0.1, CORRECT: 0.99}
    page = report.to_html(at_least=bounds)
    places = [
        page.index("<b>FAILED</b>"),
        page.index("<b>ok</b>"),
        page.index("The first failure"),
        page.index(">q4<"),
        page.index("<th colspan"),
        page.index(f'title="{CORRECT}"'),
        page.index('title="retrieval/ground_truth/document_recall/average"'),
        page.index("The worst rows"),
        page.index(">q0<"),
    ]
    assert places == sorted(places)
    assert page.count(">q4<") == 1
    good = report.to_html(at_least={CORRECT: 0.5})
    assert "The first failure" not in good
