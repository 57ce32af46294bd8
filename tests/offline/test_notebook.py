"""In a notebook a report shows itself, and a run shows how far it is."""

from __future__ import annotations

import builtins
import sys
import types
from importlib.util import find_spec

import pytest
from golden import golden

import llmeval_sdk as llmeval
from llmeval_sdk.offline.report import html


NAMES = ["document_recall", "exact_match"]
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\u202e\x1b[31m"


def test_a_report_shows_its_metrics_and_worst_rows():
    """What `print` would say too, as a table."""
    html = llmeval.evaluate(golden(), evaluators=NAMES)._repr_html_()
    for words in ("6 rows", "exact_match/average", "0.667", "What is roof 0 made of?", "<table>"):
        assert words in html


def test_no_text_of_a_row_is_markup():
    """Not of rows, evaluators' explanations or the name of the run."""

    @llmeval.heuristic(automatic=False)
    def hostile_of_test(record: llmeval.Record) -> llmeval.Evaluation:
        return llmeval.Evaluation("hostile_of_test", False, explanation=HOSTILE)

    rows = [{"request_id": HOSTILE, "request": HOSTILE, "response": "r"}]
    html = llmeval.evaluate(rows, evaluators=[hostile_of_test], experiment="x")._repr_html_()
    assert "&lt;script&gt;" in html
    for bad in ("<script", "<img", "\x1b", "\u202e", "<style", "http"):
        assert bad not in html


def test_a_cell_stays_small(monkeypatch):
    """Whatever the texts, and without reading a million rows."""
    rows = [{"request_id": f"{n}" * 5_000, "request": "q" * 50_000, "response": "a",
             "expected_response": "b"} for n in range(9)]  # fmt: skip
    report = llmeval.evaluate(rows, evaluators=["exact_match"])
    assert len(report._repr_html_()) < 8_000
    monkeypatch.setattr(html, "MAX_ROWS_READ", 5)
    assert "to_html()" in report._repr_html_()


@pytest.fixture
def notebook(monkeypatch):
    """What rich asks of a notebook: a shell, a place to display, and a widget to draw in."""
    shown = []

    class ZMQInteractiveShell:
        pass

    class Output:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def clear_output(self, **_):
            pass

        def close(self):
            pass

    display = types.ModuleType("IPython.display")
    display.display = shown.append
    widgets = types.ModuleType("ipywidgets")
    widgets.Output = Output
    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setitem(sys.modules, "ipywidgets", widgets)
    return shown


def test_progress_is_shown_in_a_notebook(notebook, capsys):
    """Standard error is no terminal there; rich draws with the notebook's own widgets."""
    pytest.importorskip("rich")
    llmeval.evaluate(golden(), evaluators=NAMES)
    assert notebook
    drawn = len(notebook)
    llmeval.evaluate(golden(), evaluators=NAMES, progress=False)
    assert len(notebook) == drawn


def test_a_notebook_without_widgets_gets_no_warning(notebook, monkeypatch, recwarn):
    """There, nothing is drawn rather than something broken."""
    monkeypatch.delitem(sys.modules, "ipywidgets")
    if find_spec("ipywidgets") is not None:
        pytest.skip("ipywidgets is installed")
    llmeval.evaluate(golden(), evaluators=NAMES)
    assert (notebook, [each.message for each in recwarn]) == ([], [])
