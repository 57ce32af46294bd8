"""A store that the first release wrote is read for ever, and written by later ones.

``UPDATE_FROZEN=1 python -m pytest tests/frozen`` accepts a change of what is said; the store of a
release is never written again (``write_fixtures.py`` says how it was).
"""

import html
import html.parser
import json
import re
from contextlib import closing

import pytest
from shapes import columns

import llmeval_sdk as llmeval
from llmeval_sdk.model import Batch
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.traces import spans_like
from llmeval_sdk.store.writer import StoreWriter


def test_the_report_says_the_same(frozen, command, store):
    """Every figure of `report`, as text and as JSON, with a trend, an alert and a predictor."""
    frozen("store_report.txt", command("report", "--store", store))
    run = ("report", "--store", store, "--json", "--by", "day", "--alert", "groundedness<0.1")
    found = json.loads(command(*run, exits=2))
    frozen("store_report.json", rounded(found))


def rounded(value):
    """Round as far as two machines may differ in the last digits."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return round(value, 9) if isinstance(value, float) else value


def test_explain_says_the_same_of_every_request(frozen, command, store, requests):
    """Values, errors, people's labels, and for each refusal the reason and what to do."""
    assert len(requests) > 8
    told = [command("explain", span_id, "--store", store) for span_id in requests]
    frozen("store_explain.txt", "\n\f\n".join(told))


def test_traces_lists_the_same(frozen, command, store):
    """The latest, the worst and the failed requests, as text and as JSON."""
    frozen("store_traces.txt", command("traces", "--store", store))
    run = ("traces", "--store", store, "--json")
    found = {
        "latest": json.loads(command(*run)),
        "worst": json.loads(command(*run, "--worst", "polite")),
        "failed": json.loads(command(*run, "--failed")),
    }
    frozen("store_traces.json", found)


def test_export_writes_the_same(frozen, command, store, tmp_path):
    """Every field of every span, evaluation, refusal and label, as JSON lines, OTLP and Parquet."""
    told = command("export", "--store", store).splitlines()
    frozen("store_export.jsonl", [json.loads(line) for line in told])
    otlp = command("export", "--store", store, "--format", "otlp").splitlines()
    frozen("store_export_otlp.jsonl", [attributes(json.loads(line)) for line in otlp])
    parquet = pytest.importorskip("pyarrow.parquet")
    command("export", "--store", store, "--out", tmp_path / "spans.parquet")
    table = parquet.read_table(tmp_path / "spans.parquet")
    frozen("store_parquet.json", {each.name: str(each.type) for each in table.schema})


def attributes(value):
    """Reduce OTLP JSON to its keys, and each attribute to its name and type."""
    if isinstance(value, dict):
        return {
            key: {each["key"]: next(iter(each["value"])) for each in inner}
            if key == "attributes"
            else attributes(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [attributes(inner) for inner in value]
    return type(value).__name__


def test_records_are_evaluated_again_from_the_store(frozen, command, store, tmp_path):
    """`evaluate --from-store` reads the same requests with the same inputs."""
    saved = tmp_path / "saved.jsonl"
    run = ("evaluate", "--from-store", "--store", store, "--evaluators", "context_precision")
    command(*run, "--save", saved, "--no-progress", "--json")
    rows = [json.loads(line) for line in saved.read_text().splitlines()]
    frozen("store_evaluated.json", columns(rows))


class Rows(html.parser.HTMLParser):
    """The texts of a table's rows, a cell an item."""

    def __init__(self):
        super().__init__()
        self.rows = []
        self.is_in_cell = False

    def handle_starttag(self, tag, attributes):
        if tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"}:
            self.rows[-1].append("")
            self.is_in_cell = True

    def handle_endtag(self, tag):
        if tag in {"td", "th"}:
            self.is_in_cell = False

    def handle_data(self, data):
        if self.is_in_cell:
            self.rows[-1][-1] = " ".join(f"{self.rows[-1][-1]} {data}".split())


def test_the_viewer_lists_the_same_rows(frozen, store):
    """Requests, their answers, scores and labels, as a person sees them; and every page opens."""
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    from served import serving

    app = llmeval.viewer.app(store=store, open=True, feedback=False)
    with closing(app), serving(app) as site:
        path, found, traces = "/", Rows(), set()
        while path:  # a page looks for a tenth of a second, so that a busy machine makes several
            answer = site.get(path)
            assert answer.status == 200
            found.feed(answer.text)
            traces.update(re.findall(r"/traces/[0-9a-f]{32}", answer.text))
            further = re.search(r'rel="next" href="([^"]+)"', answer.text)
            path = html.unescape(further[1]) if further else None
        rows = [[cell for cell in row[1:] if cell] for row in found.rows]
        frozen("store_viewer.jsonl", [row for n, row in enumerate(rows) if row not in rows[:n]])
        assert len(traces) > 8
        assert {site.get(path).status for path in [*traces, "/scores"]} == {200}


def test_a_writer_of_today_goes_on_with_it(store):
    """Opened for writing, migrated if need be, it holds what it held, and takes new records."""
    with StoreReader(store) as reader:
        before = reader.counts()
        spans = [
            reader.span(ref.span_id) for ref in reader.read(lambda c: spans_like(c, "", 1_000))
        ]
    with closing(StoreWriter(store, max_days=0)) as writer:
        writer.write(Batch((spans[0].__class__("ab" * 16, "cd" * 8, None, "new", "task", 1, 2),)))
    with StoreReader(store) as reader:
        after = reader.counts()
        assert [reader.span(each.span_id) for each in spans] == spans
        assert reader.span("cd" * 8).name == "new"
    assert (after.spans, after.evaluations) == (before.spans + 1, before.evaluations)
    assert (after.not_run, after.feedback) == (before.not_run, before.feedback)
