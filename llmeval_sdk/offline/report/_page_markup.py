"""Pieces of HTML and the style sheet of a report's page.

Whatever rows and apps say goes through `text`. The page is light or dark as the reader's system is
set, and it needs no script and no font file.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def text(said: str) -> str:
    """Return a text that is no markup, in any encoding's worst case."""
    return escape(said.encode("utf-8", "replace").decode())


def metric(path: str, evaluator: str) -> str:
    """Return a metric's path with the evaluator's name standing out; it may break at slashes."""
    parts = (
        f"<b>{text(part)}</b>" if evaluator in (part, f"total_{part}") else text(part)
        for part in path.split("/")
    )
    return f'<code title="{text(path)}">{"/<wbr>".join(parts)}</code>'


def mark(said: str, *, good: bool | None) -> str:
    """Make a few words in a coloured field; grey where they are neither good nor bad."""
    kind = "soft" if good is None else "good" if good else "bad"
    return f'<span class="mark {kind}">{text(said)}</span>'


def cells(row: Iterable[tuple[str, str]], tag: str = "td") -> str:
    """Make a row of a table of classes and cells that are HTML already."""
    inside = (
        f'<{tag} class="{kind}">{cell}</{tag}>' if kind else f"<{tag}>{cell}</{tag}>"
        for kind, cell in row
    )
    return f"<tr>{''.join(inside)}</tr>"


def table(head: Iterable[tuple[str, str]], rows: Iterable[str]) -> str:
    """Make a table of classes and titles, and of rows that are HTML already."""
    return f"<table>{cells(head, 'th')}{''.join(rows)}</table>"


STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fafaf8; --surface: #ffffff; --ink: #1c2027; --muted: #646b76; --line: #e4e4df;
  --accent: #4450c8; --track: #ececf4;
  --good: #1f7a4d; --good-soft: #e3f3ea; --bad: #b3261e; --bad-soft: #fbe7e5;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #121417; --surface: #191c20; --ink: #e5e7ea; --muted: #9aa2ad; --line: #2b3037;
    --accent: #9aa5ff; --track: #262a33;
    --good: #6fcf9c; --good-soft: #173126; --bad: #ff8f85; --bad-soft: #3b1d1c;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 76rem; padding: 2rem 1.5rem 4rem; color: var(--ink);
  background: var(--paper); font: 14px/1.5 system-ui, sans-serif;
}
h1 { font-size: 1.5rem; margin: 0; display: flex; gap: .75rem; align-items: center; }
h1 .mark { font-size: .85rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .75rem; }
h2 .soft { font-weight: 400; font-size: .9rem; margin-left: .4rem; }
p { margin: .25rem 0; }
code { font: .92em ui-monospace, monospace; color: var(--muted); }
code b { color: var(--ink); }
.soft, .unsure, .unchanged, .changed { color: var(--muted); }
.bad, .worse { color: var(--bad); }
.good, .better { color: var(--good); }
.mark {
  display: inline-block; padding: 0 .5rem; border-radius: 1rem; font-size: .8rem;
  font-weight: 500; white-space: nowrap;
}
.mark.bad { background: var(--bad-soft); }
.mark.good { background: var(--good-soft); }
.mark.soft { background: var(--track); }
.gate { list-style: none; margin: 1rem 0 0; padding: 0; }
.gate li { margin: .3rem 0; padding: .25rem .75rem; border-left: 3px solid; color: var(--ink); }
.gate li { overflow-wrap: anywhere; }
.gate .good { border-color: var(--good); }
.gate .bad { border-color: var(--bad); background: var(--bad-soft); }
.gate b { display: inline-block; min-width: 4rem; }
.gate .good b { color: var(--good); }
.gate .bad b { color: var(--bad); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
body > .wide { margin: 1.25rem 0; }
th, td { text-align: left; padding: .3rem 1rem .3rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 500; color: var(--muted); font-size: .85rem; }
.section th { padding-top: 1.1rem; color: var(--ink); font-weight: 600; font-size: .95rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.bar { display: block; position: relative; width: 9rem; height: .6rem; background: var(--track); }
.bar i { display: block; height: 100%; background: var(--accent); }
.bar.missed i { background: var(--bad); }
.bar .bound { position: absolute; top: -.2rem; width: 2px; height: 1rem; }
.bar .bound, .bar.missed .bound { background: var(--ink); }
svg { vertical-align: middle; width: 6.5rem; height: 1.3rem; }
.spark rect { fill: var(--accent); }
.forest path { fill: none; stroke: currentColor; stroke-width: 1.5; }
.forest circle { fill: currentColor; }
.forest .zero { stroke: var(--line); }
details {
  border: 1px solid var(--line); border-radius: 8px; margin: .4rem 0; background: var(--surface);
}
summary {
  cursor: pointer; padding: .5rem .9rem; display: flex; gap: .75rem; align-items: baseline;
}
summary::before { content: "▸"; color: var(--muted); }
details[open] > summary::before { content: "▾"; }
details[open] > summary { border-bottom: 1px solid var(--line); }
details > .wide, details > ol { padding: .5rem .9rem; margin: 0; }
.id { font-weight: 600; white-space: nowrap; }
.asked {
  flex: 1; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; color: var(--muted);
}
.marks { display: flex; gap: .3rem; }
.inside { display: grid; grid-template-columns: 1fr 1fr; gap: 1.5rem; padding: .75rem .9rem; }
.inside > div { min-width: 0; }
.inside.both { border-bottom: 1px solid var(--line); }
.inside h3 { font-size: .8rem; margin: .75rem 0 .1rem; color: var(--muted); font-weight: 500; }
.inside h3:first-child { margin-top: 0; }
.inside td { vertical-align: top; font-size: .92rem; overflow-wrap: anywhere; }
.inside td:nth-child(-n+2) { white-space: nowrap; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; }
ol { margin: .1rem 0; padding-left: 1.4rem; }
@media (max-width: 60rem) {
  body { padding: 1.25rem 1rem 3rem; }
  .desk { display: none; }
  .inside { grid-template-columns: 1fr; }
  .inside tr { display: flex; flex-wrap: wrap; border-bottom: 1px solid var(--line); }
  .inside td, .inside th { border: none; }
  .inside td:first-child { flex: 1; }
  .inside td:nth-child(3) { flex-basis: 100%; padding-top: 0; color: var(--muted); }
  .inside td:empty, .inside th { display: none; }
  summary { flex-wrap: wrap; }
  .asked { flex-basis: 100%; order: 3; }
  .marks { flex-wrap: wrap; margin-left: auto; }
}
@media (max-width: 30rem) { th, td { padding-right: .5rem; } }
"""
