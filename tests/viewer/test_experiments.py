"""The experiments pages list saved offline reports and show two of them side by side."""

import json
import os
import re
import time

import pytest
from viewer_store import HOSTILE

import llmeval_sdk as llmeval
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.offline import Aggregate, Report, Row
from llmeval_sdk.offline.report.html import side_by_side


def rows_of(answers, prefix="q"):
    return [
        {
            "request_id": f"{prefix}{n}",
            "request": f"What is the roof of house {n} made of?",
            "response": answer,
            "expected_response": "slate",
        }
        for n, answer in enumerate(answers)
    ]


@pytest.fixture
def folder(store):
    """Return the folder where `llmeval evaluate` saves reports beside this store."""
    folder = store.path.with_name("reports")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def saved(folder, name, answers, **more):
    more = {"evaluators": ["exact_match", "contains"], "progress": False, **more}
    return llmeval.evaluate(rows_of(answers), save=folder / f"{name}.jsonl", **more)


def text_of(page):
    """Return what a page says."""
    return " ".join(re.sub(r"<[^>]+>", " ", page.text.replace("<wbr>", "")).split())


def until_done(site, path):
    """Ask for a page as the browser does, until it no longer says that it is counting."""
    deadline = time.monotonic() + 60
    while True:
        page = site.get(path)
        if "Still counting" not in page.text or time.monotonic() > deadline:
            return page
        assert 'http-equiv="refresh"' in page.text


def test_a_store_without_reports_says_how_one_is_saved(site, store):
    """Nothing is an error: the page names the option that saves a report, and the folder."""
    page = site.get("/experiments")
    assert page.status == 200
    assert "No reports yet" in page.text
    assert str(store.path.with_name("reports")) in page.text
    assert 'href="/experiments" aria-current="page"' in page.text


def test_reports_are_listed_with_what_they_say(site, folder):
    """Name, data set, rows, the mean of each evaluator with its interval, newest first."""
    saved(folder, "first", ["slate"] * 30 + ["tile"] * 10, experiment="prompt-v1")
    saved(folder, "second", ["slate"] * 40)
    told = text_of(site.get("/experiments"))
    assert told.index("second.jsonl") < told.index("first.jsonl")
    assert "prompt-v1" in told
    assert "data rows" in told
    assert "40 0.75" in told
    assert re.search(r"0\.75 0\.\d+ to 0\.\d+", told)


def test_the_interval_is_that_of_the_estimates():
    """From sums alone comes what `population_mean` returns for the values themselves."""
    from llmeval_sdk.statistics.mean import mean_of_all, population_mean

    for values in ([0.0] * 7, [1.0], [0.2, 0.9, 0.4] * 50, [0.0, 1.0] * 12):
        sums = len(values), sum(values), sum(value * value for value in values)
        for bounds in ((0.0, 1.0), None):
            whole = population_mean(values, [1.0] * len(values), bounds=bounds)
            by_sums = mean_of_all(*sums, bounds=bounds)
            assert by_sums.mean == pytest.approx(whole.mean)
            assert (by_sums.low, by_sums.high) == pytest.approx((whole.low, whole.high), abs=1e-7)


def test_the_list_sorts_by_every_column(site, folder):
    """Each column's link sorts by it, and once more the other way round; the address is a link."""
    saved(folder, "a-good", ["slate"] * 9)
    saved(folder, "b-bad", ["tile"] * 8)
    page = site.get("/experiments")
    for sort in ("@name", "@rows", "@time", "exact_match"):
        assert f"sort={sort.replace('@', '%40')}" in page.text

    def order(sort):
        return re.findall(r'name="a" value="([^"]+)"', site.get(f"/experiments?sort={sort}").text)

    assert order("exact_match") == ["a-good.jsonl", "b-bad.jsonl"]
    assert order("-exact_match") == ["b-bad.jsonl", "a-good.jsonl"]
    assert order("-%40rows") == ["b-bad.jsonl", "a-good.jsonl"]


def test_two_reports_stand_side_by_side_and_the_worst_change_comes_first(site, folder):
    """Rows are joined by id; what got worse precedes what got better; sames are left out."""
    saved(folder, "before", ["slate", "tile", "slate", "slate"] + ["slate"] * 20)
    saved(folder, "now", ["slate", "slate", "copper roof", "slate"] + ["slate"] * 20)
    page = until_done(site, "/experiments/compare?a=before.jsonl&b=now.jsonl")
    told = text_of(page)
    assert page.status == 200
    assert "24 rows in both" in told
    assert "1 got worse, 2 changed" in told
    assert told.index("copper roof") < told.index("house 1 made")
    assert "q0 " not in told
    assert re.search(r"exact_match\S* 0\.96 0\.96 =", told)


def test_lost_answers_stand_in_the_list_on_the_page_and_in_a_comparison(site, folder):
    """An app that answered half of the rows looks like that everywhere, and not like a good one."""
    saved(folder, "before", ["slate"] * 40)
    saved(folder, "half", ["slate", None] * 20)
    saved(folder, "abstains", ["slate"] * 40, model=lambda request: {"abstained": "not there"})
    listed = text_of(site.get("/experiments"))
    assert "40 no answer 50%" in listed
    assert "40 abstained 100%" in listed
    opened = text_of(until_done(site, "/experiments/report?name=half.jsonl"))
    assert "no answer on 20 rows" in opened
    assert "no_answer/percentage 0.50" in opened
    compared = text_of(until_done(site, "/experiments/compare?a=before.jsonl&b=half.jsonl"))
    assert "no_answer/percentage" in compared
    assert "worse" in compared


def test_reports_without_a_common_metric_are_not_called_unchanged(site, folder):
    """The page says that nothing was compared, or which evaluator rates nothing any more."""
    saved(folder, "before", ["slate"])
    saved(folder, "other", ["slate"], evaluators=["mrr"])
    nothing = text_of(until_done(site, "/experiments/compare?a=other.jsonl&b=before.jsonl"))
    assert "nothing was compared" in nothing
    assert "1 row in both" in nothing
    broken = {"model": lambda question: 1 / 0, "evaluators": ["exact_match"]}
    saved(folder, "broken", ["slate"], **broken)
    lost = text_of(until_done(site, "/experiments/compare?a=before.jsonl&b=broken.jsonl"))
    assert "exact_match rated rows before, and none of them now" in lost


def test_the_page_says_what_the_command_line_says(site, folder):
    """One question has one answer: the changes are those of `Report.compare`."""
    saved(folder, "before", ["slate"] * 60)
    saved(folder, "now", ["slate"] * 30 + ["tile"] * 30)
    compared = Report.load(folder / "now.jsonl").compare(Report.load(folder / "before.jsonl"))
    told = text_of(until_done(site, "/experiments/compare?a=before.jsonl&b=now.jsonl"))
    for change in compared.changes:
        assert f"{change.difference:+.3g} {change.low:+.3g} to {change.high:+.3g}" in told
    assert "worse" in told


def test_only_what_counts_as_worse_is_marked(site, folder):
    """A score that fell by 0.01 is no mark, neither here nor in the HTML report; by 0.5 it is."""
    reports = []
    for name, small, large in (("before", 0.9, 0.9), ("now", 0.89, 0.4)):
        row = Row(
            Record(request_id="q", request="why?", response=name),
            {"little": Evaluation("little", small), "much": Evaluation("much", large)},
            1,
        )
        aggregate = Aggregate()
        aggregate.add(row)
        reports.append(Report([row], aggregate, name, ("little", "much")))
        reports[-1].save(folder / f"{name}.jsonl")
    page = until_done(site, "/experiments/compare?a=before.jsonl&b=now.jsonl").text
    assert re.findall(r'class="pill bad"><bdi>(\w+)', page) == ["much"]
    marked = side_by_side(reports[1].compare(reports[0]))
    assert re.findall(r'→ <span class="(\w*)">', marked) == ["", "bad"]


def test_one_report_shows_its_metrics_and_worst_rows(site, folder):
    """The metrics stand with their intervals, and the rows that went worst with their texts."""
    saved(folder, "one", ["slate"] * 20 + ["tiles of clay"])
    told = text_of(until_done(site, "/experiments/report?name=one.jsonl"))
    assert "21 rows" in told
    assert "tiles of clay" in told
    assert "1 to 21" not in told


@pytest.mark.parametrize("query", [
    "a=../../etc/passwd&b=x", "a=one.jsonl&b=missing.jsonl", "a=one.jsonl", "", "a=%00&b=%00",
    "a=one.jsonl&b=other.jsonl",
])  # fmt: skip
def test_what_cannot_be_compared_is_said(site, folder, query):
    """A wrong name, a path out of the folder, or reports of other rows: a sentence, never a 500."""
    saved(folder, "one", ["slate"])
    llmeval.evaluate(
        rows_of(["tile"], "other"), evaluators=["contains"], save=folder / "other.jsonl",
        progress=False,
    )  # fmt: skip
    page = until_done(site, f"/experiments/compare?{query}")
    assert 400 <= page.status < 500
    assert "That cannot be shown" in page.text


BROKEN = {
    "empty.jsonl": b"",
    "text.jsonl": b"hello\n",
    "binary.jsonl": bytes(range(256)) * 100,
    "list.jsonl": b"[1, 2]\n",
    "deep.jsonl": b"[" * 100_000,
    "half.jsonl": b'{"llmeval_report":1}\n{"end":{"rows":3,"tall',
    "numbers.jsonl": b'{"llmeval_report":1}\n{"end":{"rows":"x","errors":{},"tallies":{"a":{"rated":"b"'
    b',"sums":{"a/average":1},"squares":{},"reasons":{},"usage":[1,2,3,4],"unrated_parts":0,"seconds":0'
    b',"errors":{}}}}}\n',
    "keys.jsonl": b'{"llmeval_report":1}\n{"end":{}}\n',
    "nothing.jsonl": b'{"llmeval_report":1}\n{"end":null}\n',
    "nan.jsonl": b'{"llmeval_report":1,"experiment":["x"],"judge":7,"created_ns":1e400,"data":{}}\n'
    b'{"number":1,"digest":"","record":{"request":"r","usage":{"a":1}},"evaluations":[]}\n'
    b'{"end":{"rows":1,"errors":{},"tallies":{"a":{"rated":1,"sums":{"a/average":NaN},"squares":'
    b'{"a/average":Infinity},"reasons":{},"errors":{},"usage":[1,2,3,NaN],"unrated_parts":0,"seconds":0'
    b"}}}}\n",
}


def test_broken_and_hostile_files_are_named_and_the_others_are_shown(site, folder):
    """Each file that is no report is named with a sentence; none makes a page fail."""
    saved(folder, "good", ["slate"] * 3)
    for name, content in BROKEN.items():
        (folder / name).write_bytes(content)
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "gone.jsonl").symlink_to(folder / "nowhere")
    (folder / "run-on-ray").mkdir()
    (folder / "run-on-ray" / "run.json").write_text("{")
    page = site.get("/experiments")
    assert page.status == 200
    told = text_of(page)
    assert "good.jsonl" in told.partition("Cannot be read")[0]
    for name in ("text.jsonl", "deep.jsonl", "half.jsonl", "keys.jsonl", "run-on-ray"):
        assert name in told.partition("Cannot be read")[2], name
    assert "pipe.jsonl" not in told
    for name in (*BROKEN, "run-on-ray", "pipe.jsonl", "gone.jsonl"):
        for path in (
            f"/experiments/report?name={name}",
            f"/experiments/compare?a={name}&b=good.jsonl",
            f"/experiments/compare?a=good.jsonl&b={name}",
        ):
            assert until_done(site, path).status in (200, 422), path


def test_hostile_texts_stay_texts(site, folder):
    """Names, requests, answers and explanations are escaped wherever they stand."""
    row = Row(
        Record(request_id=HOSTILE, request=HOSTILE, response=HOSTILE),
        {"x": Evaluation("x", 0.1, explanation=HOSTILE, label=HOSTILE)},
        1,
    )
    for name in ("a", "b"):
        aggregate = Aggregate()
        aggregate.add(row)
        Report([row], aggregate, HOSTILE, ("x",)).save(folder / f"<img src=x>{name}.jsonl")
        row = Row(row.record, {"x": Evaluation("x", 0.9, explanation=HOSTILE)}, 1)
    a, b = (f"%3Cimg%20src%3Dx%3E{name}.jsonl" for name in "ab")
    for path in (
        "/experiments", f"/experiments/report?name={a}", f"/experiments/compare?a={b}&b={a}",
    ):  # fmt: skip
        page = until_done(site, path)
        assert page.status == 200
        for part in ("<script>alert", "<img src", "<svg onload", "\u202e", "\x1b"):
            assert part not in page.text, (path, part)


def test_an_unfinished_run_is_said_to_be_one(site, folder):
    """A run that was interrupted is listed, says so, and cannot be chosen."""
    saved(folder, "cut", ["slate"] * 5)
    path = folder / "cut.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    page = site.get("/experiments")
    assert "not finished" in page.text
    assert page.text.count("disabled") == 2
    assert "2 rows" in text_of(until_done(site, "/experiments/report?name=cut.jsonl"))


def test_another_folder_can_be_named(serve, tmp_path):
    """`viewer.app(reports=…)` reads the reports from there."""
    saved(tmp_path, "elsewhere", ["slate"])
    assert "elsewhere.jsonl" in serve(reports=tmp_path).get("/experiments").text


def _large(path, count, shift=0.0):
    """Write a report of many rows as fast as files can be written."""
    head = {"llmeval_report": 1, "experiment": path.stem, "evaluators": ["x"], "judge": None}
    with path.open("w") as file:
        file.write(json.dumps(head) + "\n")
        for n in range(count):
            value = (n % 100) / 100 - (shift if n % 7 == 0 else 0)
            file.write(
                f'{{"number":{n + 1},"digest":"{n:x}","record":{{"request_id":"q{n}","request":'
                f'"{"question " * 20}","response":"{"answer " * 40}"}},"evaluations":[{{"name":"x",'
                f'"value":{max(value, 0.0)},"explanation":null,"error":null}}]}}\n'
            )
        tally = {
            "rated": count, "sums": {"x/average": count / 2}, "squares": {"x/average": count / 3},
            "reasons": {}, "failed": 0, "errors": {}, "unrated_parts": 0, "low": 0.0, "high": 1.0,
            "usage": [0, 0, 0, None], "seconds": 0.0,
        }  # fmt: skip
        end = {"rows": count, "errors": {}, "tallies": {"x": tally}, "answers": {}}
        file.write(json.dumps({"end": end}) + "\n")


def test_a_page_without_room_says_busy_and_tries_again(site, folder, monkeypatch):
    """It is a 503 with a sentence; the browser asks again by itself, and is answered then."""
    saved(folder, "one", ["slate"])
    with monkeypatch.context() as patch:
        patch.setattr("llmeval_sdk.viewer._site.MAX_TASKS", 0)
        page = site.get("/experiments/report?name=one.jsonl")
    assert page.status == 503
    assert "try again" in text_of(page)
    assert 'http-equiv="refresh"' in page.text
    assert until_done(site, "/experiments/report?name=one.jsonl").status == 200


def test_large_reports_open_before_they_are_counted(site, folder, monkeypatch):
    """A page answers before and says how far it is; the list reads no rows."""
    monkeypatch.setattr("llmeval_sdk.viewer._comparisons.WAIT_SECONDS", 0.0)
    _large(folder / "before.jsonl", 20_000)
    _large(folder / "now.jsonl", 20_000, shift=0.5)
    assert site.get("/experiments").status == 200
    page = site.get("/experiments/compare?a=before.jsonl&b=now.jsonl")
    assert page.status == 200
    assert "Still counting" in page.text
    told = text_of(until_done(site, "/experiments/compare?a=before.jsonl&b=now.jsonl"))
    assert "20,000 rows in both" in told
    assert "the 100 worst changes" in told
