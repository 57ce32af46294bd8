"""A new judge is its file and one line in the registry; everything else follows from the judge."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

import llmeval_sdk
import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.offline.report.row import columns, output_of
from llmeval_sdk.store.populations import SharedReadings, populations
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.scores import scores_by_span
from llmeval_sdk.testing.judge_server import JudgeServer


THE_FILE = '''
"""Judge: is the response polite?"""

from llmeval_sdk.judges.prompt import request, response
from llmeval_sdk.judges.prompt import words
from llmeval_sdk.judges.yes_no import YesNoJudge


def _by_words(sections):
    polite = "please" in words(sections.get("response", ""))
    return {"rationale": "stand-in: it says please", "rating": "yes" if polite else "no"}


politeness = YesNoJudge(
    name="politeness",
    version="1",
    needs=("request", "response"),
    rubric="yes where it is polite, else no",
    sections=lambda record: [*request(record), *response(record)],
    automatic=True,
    share_of="answers",
    predictor="groundedness_risk",
    report_path="response/llm_judged/manners/politeness",
    stand_in=_by_words,
)
'''
ROWS = [
    {"request": "roof?", "response": "slate, please", "retrieved_context": ["slate"]},
    {"request": "roof?", "response": "slate", "retrieved_context": ["slate"]},
]
METRIC = "response/llm_judged/manners/politeness/rating/percentage"


@pytest.fixture
def new_judge(tmp_path, monkeypatch):
    """The file and the line; nothing else of the package knows the judge."""
    (tmp_path / "new_judge_file.py").write_text(THE_FILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(registry.judges(), "politeness", "new_judge_file:politeness")
    yield
    sys.modules.pop("new_judge_file", None)


@pytest.fixture
def stand_in(monkeypatch):
    with JudgeServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("LLMEVAL_JUDGE_MODEL", "stand-in")
        yield server


def test_the_stand_in_the_report_and_the_metric_have_it(new_judge, stand_in):
    """Its own rule answers, its path names the metric, and it stands in its place in the order."""
    report = llmeval.evaluate(ROWS, progress=False)
    values = [row.evaluations["politeness"].value for row in report.rows]
    assert values == ["yes", "no"]
    assert report.metrics[METRIC] == 0.5
    assert f"`{METRIC}`" in report.to_markdown()
    judges = [name for name in report.rows[0].evaluations if registry.is_judge(name)]
    assert judges == [name for name in registry.judges() if name in judges]
    assert judges[-1] == "politeness"
    judge = registry.evaluator("politeness")
    assert set(columns("politeness", output_of(judge))) == {
        "response/llm_judged/manners/politeness/rating",
        "response/llm_judged/manners/politeness/rationale",
        "response/llm_judged/manners/politeness/error_message",
    }


def test_a_share_of_the_traffic_and_its_estimate_have_it(new_judge, stand_in, tmp_path):
    """``judge_share`` asks it, and the free score that it declares carries the estimate."""
    store = tmp_path / "traffic.db"
    with llmeval_sdk.testing.capture(
        exporters=["local"], store=str(store), judge_share=0.5, escalations=[]
    ) as seen:
        for number in range(40):
            with llmeval.workflow("answer", request="roof?") as span:
                span.annotate(
                    response=f"slate {number}{', please' if number % 2 else ''}",
                    retrieved_context=["the roof is slate"],
                )
            seen.drain()
    with StoreReader(str(store)) as reader:
        found = {each.judge: each for each in populations(reader, (None, None, None, None), None)}
        predicted = SharedReadings(reader).of("politeness")
        assert predicted == reader.read(lambda c: scores_by_span(c, "groundedness_risk")) != {}
    assert "politeness" in found
    assert found["politeness"].estimate is not None


JUDGES_ROOM = Path(llmeval_sdk.__file__).parent / "judges"
ALLOWED = {
    "registry.py": "its line",
    "heuristics/risk/groundedness.py": "a model file of the heuristic has the same name",
    "evaluation/escalation.py": "the default rule asks one judge, by its purpose",
    "tracing/foreign/conventions.py": "another library has an attribute of the same name",
    "store/labels.py": "fits the rules of extractions to verdicts of one judge",
}


def test_no_other_file_lists_built_in_judges():
    """What is said of each judge stands with the judge: no table elsewhere would need its name."""
    root = JUDGES_ROOM.parent
    found, judges = {}, set(registry.judges())
    for path in root.rglob("*.py"):
        place, text = path.relative_to(root).as_posix(), path.read_text()
        if place.startswith(("judges/", "plugins/")) or place in ALLOWED:
            continue
        if judges.isdisjoint(re.findall(r"\w+", text)):
            continue
        names = {
            node.value
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Constant) and node.value in judges
        }
        if names:
            found[place] = sorted(names)
    assert found == {}
