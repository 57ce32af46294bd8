"""How a report's page looks: light or dark as the reader's system says, no script, no font file."""

STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1d2430; --soft: #5b6575; --line: #dfe3ea; --paper: #ffffff; --panel: #f6f7f9;
  --bad: #b3261e; --good: #1d7a46; --accent: #2f6fde;
  --chart-ink: #4a5361; --chart-grid: #e3e6ec;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6e9ef; --soft: #9aa4b5; --line: #343b47; --paper: #14181f; --panel: #1c212a;
    --bad: #ff8a80; --good: #6fce97; --accent: #7eaaff;
    --chart-ink: #b6bfcd; --chart-grid: #343b47;
    --chart-1: #7eaaff; --chart-3: #6fce97; --chart-5: #ff8a80;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 72rem; padding: 2rem 1.5rem 4rem; color: var(--ink);
  background: var(--paper); font: 15px/1.5 system-ui, sans-serif;
}
h1 { font-size: 1.6rem; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .75rem; }
p { margin: .25rem 0; }
.soft { color: var(--soft); }
.bad { color: var(--bad); }
.good { color: var(--good); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td {
  text-align: left; padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top;
}
th { font-weight: 600; color: var(--soft); font-size: .85rem; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
code { font: .9em ui-monospace, monospace; overflow-wrap: anywhere; }
.charts { display: flex; flex-wrap: wrap; gap: 1rem; margin-top: 1.25rem; }
.charts svg { max-width: 100%; height: auto; }
details {
  border: 1px solid var(--line); border-radius: 8px; margin: .5rem 0; background: var(--panel);
}
summary {
  cursor: pointer; padding: .6rem .9rem; display: flex; gap: .75rem; align-items: baseline;
}
summary .id { font-weight: 600; white-space: nowrap; }
summary .asked {
  flex: 1; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; color: var(--soft);
}
details[open] summary { border-bottom: 1px solid var(--line); }
.inside { padding: .75rem .9rem; }
.inside h3 { font-size: .8rem; margin: .75rem 0 .2rem; color: var(--soft); font-weight: 600; }
.inside h3:first-child { margin-top: 0; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; }
.inside table { margin-top: .9rem; font-size: .92rem; }
ol { margin: .2rem 0; padding-left: 1.5rem; }
"""
