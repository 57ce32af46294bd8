"""The dashboards can be imported, and every query of Grafana's finds data in a real Prometheus."""

import itertools
import json
import math
import os
import subprocess
from contextlib import ExitStack, closing
from pathlib import Path

import metered_store
import prometheus_server
import pytest
from served import serving
from viewer_store import Store

from llmeval_sdk import viewer
from llmeval_sdk.exporters.otlp import names as _names
from llmeval_sdk.exporters.otlp.app_providers import READINGS


ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "dashboards"
GRAFANA = json.loads((FOLDER / "grafana.json").read_text())
PANELS = [panel for panel in GRAFANA["panels"] if panel["type"] != "row"]
QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
DATADOG = json.loads((FOLDER / "datadog.json").read_text())
SETTINGS = {"$__rate_interval": "20s", "$__range": "20s", "$name": ".*", "$evaluator": ".*"}
"""What Grafana puts in the place of its variables when All is chosen."""


def filled(expression):
    """Return a query as Grafana sends it."""
    for variable, value in SETTINGS.items():
        expression = expression.replace(variable, value)
    assert "$" not in expression, expression
    return expression


def test_the_vendors_models_read_all_of_both():
    """Each field of the two files is one that the published models know."""
    python = Path(os.environ["BACKENDS"]).resolve() / "dashboards" / "bin" / "python"
    done = subprocess.run(
        [python, Path(__file__).with_name("apps") / "read_dashboards.py", FOLDER],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    counts = {"grafana": len(GRAFANA["panels"]), "datadog": len(DATADOG["widgets"])}
    assert json.loads(done.stdout) == counts


def cells(place, width, height):
    return itertools.product(
        range(place["x"], place["x"] + place[width]), range(place["y"], place["y"] + place[height])
    )


@pytest.mark.parametrize(
    ("places", "columns", "sizes"),
    [
        ([panel["gridPos"] for panel in GRAFANA["panels"]], 24, ("w", "h")),
        ([widget["layout"] for widget in DATADOG["widgets"]], 12, ("width", "height")),
    ],
    ids=["grafana", "datadog"],
)
def test_no_two_panels_overlap(places, columns, sizes):
    """And none reaches beyond the grid."""
    taken = [cell for place in places for cell in cells(place, *sizes)]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < columns


def test_panels_are_told_apart_and_go_through_the_variables():
    """No panel names a data source of its own, and each says what it shows."""
    numbers = [panel["id"] for panel in GRAFANA["panels"]]
    assert len(numbers) == len(set(numbers))
    names = [variable["name"] for variable in GRAFANA["templating"]["list"]]
    assert names == ["datasource", "name", "evaluator"]
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"]
        assert panel["targets"]
        for target in (panel, *panel["targets"]):
            assert target["datasource"]["uid"] == "${datasource}"


MADE_BY_DATADOG = {
    "ml_obs.span", "ml_obs.span.error", "ml_obs.span.duration", "ml_obs.span.llm.input.tokens",
    "ml_obs.span.llm.output.tokens",
}  # fmt: skip
"""What Datadog's documents name of the metrics that it makes of spans."""
TAGS = {
    "span_kind", "model_name", _names.EVALUATION_NAME, _names.NOT_RUN_REASON, _names.TOKEN_TYPE,
    _names.EXPORTER, _names.ERROR_TYPE, _names.SITE,
}  # fmt: skip


def test_datadogs_queries_name_what_is_sent():
    """Each metric is one of ours or of those that Datadog makes of spans; so is each tag."""
    ours = {_names.HISTOGRAM, *(reading.name for reading in READINGS)}
    for widget in DATADOG["widgets"]:
        for request in widget["definition"].get("requests", ()):
            for query in request["queries"]:
                text = query["query"]
                metric = text.partition(":")[2].partition("{")[0]
                assert metric in ours | MADE_BY_DATADOG, metric
                _, _, by = text.partition(" by {")
                assert {tag for tag in by.partition("}")[0].split(",") if tag} <= TAGS, text


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    """Run Prometheus over a viewer whose store has all that can happen, in two pieces."""
    if prometheus_server.SERVER is None:
        pytest.skip(prometheus_server.WHY_SKIPPED)
    folder = tmp_path_factory.mktemp("prometheus")
    with ExitStack() as stack:
        store = stack.enter_context(closing(Store(folder / "own" / "llmeval.db")))
        metered_store.fill(store, 2)
        metered_store.lose(store)
        metered_store.spend(store)
        site = stack.enter_context(serving(viewer.app(store=store.path, open=True, metrics=True)))
        server = stack.enter_context(
            prometheus_server.running_prometheus(folder, f"127.0.0.1:{site.port}")
        )
        server.eventually('up{job="llmeval"}', lambda series: series and series[0][1] == 1)
        for count in (40, 80):  # a counter grows between two scrapes that have seen it
            metered_store.fill(store, count)
            requests = "sum(llmeval_requests_total)"
            wanted = 40 if count == 40 else 120
            server.eventually(requests, lambda series, n=wanted: series and series[0][1] == n)
        judged = 'sum(llmeval_judge_requests{step="scored"})'
        server.eventually(judged, lambda series: series and series[0][1] == 61)
        yield server


@pytest.mark.parametrize(("title", "expression"), QUERIES, ids=lambda text: text[:60])
def test_a_query_finds_data(prometheus, title, expression):
    """No panel of a store in which everything has happened is empty."""
    series = prometheus.query(filled(expression))
    assert series, title
    assert all(math.isfinite(value) for _, value in series), series


def test_the_variables_have_values(prometheus):
    """What `label_values(metric, label)` asks for is there."""
    for variable in GRAFANA["templating"]["list"][1:]:
        metric, label = variable["query"]["query"][len("label_values(") : -1].split(", ")
        assert all(labels[label] for labels, _ in prometheus.query(metric))


def test_the_intervals_contain_the_means(prometheus):
    """Of every evaluator and name."""
    ends = [
        {frozenset(labels.items()) - {("__name__", metric)}: value for labels, value in found}
        for metric in ("llmeval_score_mean_low", "llmeval_score_mean", "llmeval_score_mean_high")
        if (found := prometheus.query(metric))
    ]
    low, mean, high = ends
    assert low.keys() == mean.keys() == high.keys()
    assert len(mean) == 2
    assert all(low[about] < mean[about] < high[about] for about in mean)


def test_the_figures_are_those_of_the_store(prometheus):
    """What the stats on top say, against what was written."""
    values = {title: prometheus.query(filled(text))[0][1] for title, text in QUERIES[:6]}
    assert values["Judged share"] == pytest.approx(61 / 122)
    assert values["Lost records"] == 3
    assert values["Failed"] == pytest.approx(0.1, abs=0.02)
    assert values["Budget left today"] == pytest.approx(5.0 - metered_store.SPENT)
