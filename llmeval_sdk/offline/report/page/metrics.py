"""The table of metrics: each with its value, its distribution, and what changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from llmeval_sdk import _values
from llmeval_sdk.offline.report.bounds import below
from llmeval_sdk.offline.report.change import Change
from llmeval_sdk.offline.report.gate import Gate
from llmeval_sdk.offline.report.page.drawings import Histograms, bar, difference
from llmeval_sdk.offline.report.page.markup import cells, mark, metric, table, text
from llmeval_sdk.offline.report.summary import STOOD_IN, Line, lines, shown


if TYPE_CHECKING:
    from llmeval_sdk.offline.report.compare import Comparison
    from llmeval_sdk.offline.report.report import Report


_SECTIONS = {"response": "Response", "retrieval": "Retrieval", "agent": "Cost and time"}
_OTHERS = "Heuristics and your own"
_FAILED = "Failed"


def metrics(
    report: Report,
    histograms: Histograms,
    gate: Gate,
) -> str:
    """Make the table, in the sections of the schema; above them what failed."""
    sections: dict[str, list[Line]] = {}
    failed = set(below(report, gate.at_least, gate.min_rated))
    failed |= set() if gate.compared is None else {each.path for each in gate.compared.worse}
    for line in lines(report):
        part = line.path.partition("/")[0]
        title = _FAILED if line.path in failed else _SECTIONS.get(part, _OTHERS)
        sections.setdefault(title, []).append(line)
    changes = _Changes(gate.compared)
    head = [("", "metric"), ("number", "value"), ("desk", ""), ("desk", "distribution")]
    head += [("number", "rows"), *changes.titles]
    rows = []
    for title in (_FAILED, *_SECTIONS.values(), _OTHERS):
        if title in sections:
            rows.append(f'<tr class="section"><th colspan="{len(head)}">{title}</th></tr>')
        rows += [
            cells([*_about(line, histograms, gate.at_least), *changes.of(line.path)])
            for line in sections.get(title, ())
        ]
    return table(head, rows)


def _about(
    line: Line, histograms: Histograms, at_least: Mapping[str, float]
) -> Iterable[tuple[str, str]]:
    less = ' <span class="soft" title="less is better">↓</span>'
    by = f" {mark(STOOD_IN, good=None)}" if line.stood_in else ""
    yield "", metric(line.path, line.evaluator) + less * _values.high_is_bad(line.evaluator) + by
    yield "number", shown(line.value)
    is_share = not line.path.startswith("agent/")
    yield "desk", bar(line.value, at_least.get(line.path)) if is_share else ""
    yield "desk", histograms.draw(line.evaluator)
    why = ""
    if line.why:
        kind = "bad" if line.failed else "soft"
        why = f'<br><small class="{kind}">{text(line.why)}</small>'
    yield "number", f"{line.rated:,}{why}"


class _Changes:
    """The columns that stand there only where there is a baseline."""

    def __init__(self, compared: Comparison | None) -> None:
        found = () if compared is None else compared.changes
        self._by_path: dict[str, Change] = {each.path: each for each in found}
        self._is_shown = compared is not None
        ends = [
            abs(end) for each in found if _is_share(each) for end in (each.low, each.high) if end
        ]
        self._reach = max(ends, default=0.0)

    @property
    def titles(self) -> list[tuple[str, str]]:
        if not self._is_shown:
            return []
        return [("number desk", "before"), ("number", "difference"), ("desk", "95 % interval")]

    def of(self, path: str) -> list[tuple[str, str]]:
        if not self._is_shown:
            return []
        change = self._by_path.get(path)
        if change is None:
            return [("desk", ""), ("", ""), ("desk", "")]
        by = f"{change.difference:+.3g}" if change.difference else "="
        told = f'<span class="{change.verdict}">{by}</span>'
        drawn = difference(change, self._reach) if _is_share(change) else ""
        return [("number soft desk", shown(change.before)), ("number", told), ("desk", drawn)]


def _is_share(change: Change) -> bool:
    return 0 <= change.before <= 1 and 0 <= change.after <= 1
