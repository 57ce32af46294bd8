"""The generated pages of the reference: ``make reference`` writes them, a test compares them.

Each function of `PAGES` returns the whole text of ``docs/reference/<name>.md``.
"""

import argparse
import re
import sqlite3
from pathlib import Path

import conventions

from llmeval_sdk import cli, registry
from llmeval_sdk.cli import run
from llmeval_sdk.config.__main__ import table as settings_table
from llmeval_sdk.exporters.otlp import names as _names
from llmeval_sdk.plugins.demo import command as demo_command
from llmeval_sdk.store import _schema
from llmeval_sdk.store.state import LEDGER, STATE


FOLDER = Path(__file__).parent.parent.parent / "docs" / "reference"
NOTE = "<!-- Written by `make reference` from the code; edit the code, not this page. -->\n\n"


def settings() -> str:
    """Return the tables of all settings."""
    tables = re.sub(r"^[*]{2}(.+)[*]{2}$", r"## \1", settings_table(), flags=re.MULTILINE)
    tables = re.sub(r"^\| variable .*\n\|[- |]+\n", "", tables, flags=re.MULTILINE)
    tables = re.sub(
        r"^\| (.+?) \| (.+) \| (–|`[^|]*`) \| ([^|]+) \| (.+) \|$",
        _setting,
        tables,
        flags=re.MULTILINE,
    )
    return (
        "# Settings\n\n"
        f"{NOTE}"
        "Everything can be set by the environment alone. `configure(field=…)` wins over the\n"
        "environment, takes a text as the variable does, and raises where a value does not fit. Where\n"
        "several variables are named together, the first one that is set decides; an empty one is unset.\n"
        "A variable that is set and cannot be read gives the default, or what stands behind\n"
        "**unreadable**, so that no typo opens what it should close, with one line in the log. So does an\n"
        "unknown `LLMEVAL_…` whose name is like one with such a word. The names of Datadog, OpenTelemetry, MLflow, Phoenix, Langfuse and OpenAI are read as they are.\n"
        "`llmeval doctor --all` shows what is in force and where each value comes from.\n\n"
        f"{tables}"
    )


def _setting(row: re.Match[str]) -> str:
    names, values, default, careful, words = row.groups()
    shown = values if default == "–" else f"{values}; default {default}"
    if careful != "the default":
        shown += f"; **unreadable: {careful}**"
    return f"- {names} ({shown}): {words}"


def command_line() -> str:
    """Return what every command takes, independent of how a Python version lays out its help."""
    parser = cli._parser()
    commands = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    parts = ["# Command line\n", NOTE.strip() + "\n", f"`llmeval COMMAND`. {parser.epilog}"]
    parts += [
        "\nThese options mean the same wherever a command has them:\n",
        *(f"- `{shown}`: {words}" for shown, words in COMMON.items()),
    ]
    for name in cli.commands():
        parts += [f"\n## llmeval {name}\n", *_command(commands.choices[name], name)]
        below = commands.choices[name]._actions
        for group in (a for a in below if isinstance(a, argparse._SubParsersAction)):
            for action, parser in group.choices.items():
                parts += [f"\n## llmeval {name} {action}\n", *_command(parser, f"{name} {action}")]
    return "\n".join(parts) + "\n"


def _command(parser: argparse.ArgumentParser, name: str) -> list[str]:
    if name == "run":  # passes its arguments on, so it has a help text of its own
        return ["```text", run._USAGE.strip(), "```"]
    if name == "demo":
        parser = demo_command._parser()
    parts = [parser.description] if parser.description else []
    shown = [action for action in parser._actions if action.dest not in ("help", "action")]
    rows = [_shown(action) for action in shown]
    common = [f"`{name}`" for name, words in rows if COMMON.get(name) == words]
    own = [f"- `{name}`: {words}" for name, words in rows if COMMON.get(name) != words]
    if own:
        parts += ["", *own]
    if common:
        parts += [f"\n{'Also' if own else 'Options:'} {', '.join(common)}."]
    if parser.epilog:
        parts += ["\n```text", parser.epilog.strip(), "```"]
    return parts


COMMON = {
    "--store FILE": "the store to read (default: LLMEVAL_STORE, else .llmeval/llmeval.db)",
    "--where CONDITION": "only requests of which this holds, such as tag:tenant=acme,"
    " model~gpt-4o or 'score:groundedness<0.5'; may be repeated",
    "--until TIME": "only requests from before this time",
    "--since TIME": "only requests from this time on: 90m, 24h, 7d or an ISO date",
    "--span-name NAME": "only spans with this name",
    "--folder DIR": "where the sets are (default: datasets beside the store)",
    "--json": "print JSON instead of text",
}
"""The options that several commands share, said once at the top of the page."""


def _shown(action: argparse.Action) -> tuple[str, str]:
    value = action.metavar or ("{" + ",".join(action.choices) + "}" if action.choices else "")
    if not value and action.nargs != 0:
        value = action.dest.upper()
    names = ", ".join(action.option_strings)
    return f"{names} {value}".strip(), (action.help or "") % {"default": action.default}


def attributes() -> str:
    """Return the names that go over the wire, with what our constants call them."""
    source = Path(_names.__file__).read_text()
    known = conventions.table()
    compared = ", ".join(f"{name} {version}" for name, version in known["packages"].items())
    kept = ", ".join(f"`{name}`" for name in conventions.KEPT)
    parts = [
        "# Attributes and events\n",
        NOTE.strip() + "\n",
        "What is sent over OTLP, to Phoenix and to MLflow: OpenTelemetry's names, OpenInference's, and",
        "ours, which begin with `llmeval.`; `gen_ai.evaluation.target` is Logfire's. `make conventions`",
        f"compared them with the newest packages: {compared}.\n",
        f"The `schema_url` is `{_names.SCHEMA_URL}`: no later schema",
        "renames them, and those of `gen_ai` moved to another registry in 1.42. The resource, which the",
        "app describes, has none.\n",
        f"Deprecated, but still read or sent by others, are {kept}.",
    ]
    for section in re.split(r"^# -- ", source, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        constants = re.findall(r"^(\w+): Final = (?:\"|model\.)", body, re.MULTILINE)
        heading = title.strip(" -")
        parts += [f"\n## {heading[0].upper()}{heading[1:]}\n"]
        parts += [
            f"- `{_wire_name(constant)}`"
            for constant in constants
            if constant not in ("TEXT", "JSON", "OI_EVALUATOR")
        ]
    parts += ["\n## Span kinds\n", "| kind | `gen_ai.operation.name` | `openinference.span.kind` |"]
    parts += ["| --- | --- | --- |"]
    parts += [
        f"| `{kind}` | {_code(_names.OPERATIONS.get(kind))} | `{_names.OI_KINDS[kind]}` |"
        for kind in _names.OI_KINDS
    ]
    return "\n".join(parts) + "\n"


def _wire_name(constant: str) -> str:
    """Return what a constant stands for on the wire; some are only the beginnings of names."""
    value = str(getattr(_names, constant))
    if constant == "JUDGE_TAG":
        return _names.TAG + value
    return f"{value}<{constant.lower()}>" if value.endswith(".") else value


def _code(text: str | None) -> str:
    return f"`{text}`" if text else "–"


def store() -> str:
    """Return the tables of the store and of the files of state, as fresh files have them."""
    parts = [
        "# Store schema\n",
        NOTE.strip() + "\n",
        "Three SQLite files lie beside each other. Each has its version in `PRAGMA user_version`. A",
        "release that changes tables brings older files forward when it opens them; a file of a",
        "newer release is left alone, with an error that says so. Read them with any SQLite client,",
        "but let only llmeval_sdk write to them.\n",
        f"## The store, `llmeval.db` (version {_schema.STORE.version})\n",
        "What happened: spans, scores, what people said, and judges that did not run. The store of",
        "offline runs, `experiments.db`, has the same tables. Times are nanoseconds since the Unix",
        "epoch. A column is text where no type is named. `seq` is the order of arrival. Texts from",
        "`tags` on are JSON. `value` is real for a score, an integer for pass or fail, text for a",
        "category and null where the evaluator did not apply. `parent_id` is null for a request;",
        "`outside_parent` is a parent that is no span of ours.",
        *_tables(_schema.STORE),
        f"\n## The ledger, `llmeval.ledger` (version {LEDGER.version})\n",
        "What judges have used, written at every judgement: the books of the budgets as texts that",
        "processes change under the lock of the file.",
        *_tables(LEDGER),
        f"\n## The file of state, `llmeval.state` (version {STATE.version})\n",
        "What else has to be remembered. Calibrations, alarms and the history of extracted",
        "fields are texts; the rest has tables. Plugins bring theirs, and `plugins` counts",
        "their versions.",
        *_tables(STATE, *(registry.load(each) for each in registry.table("state").values())),
    ]
    return "\n".join(parts) + "\n"


def _tables(schema, *of_plugins):
    """Yield a section for each table of the core, and the names of the tables of each plugin."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    schema.migrate(connection)
    owners = {}
    for owner, scripts in [("", ()), *((each.owner, each.scripts) for each in of_plugins)]:
        _schema.run_scripts(connection, scripts)
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid"
        )
        for (table,) in names.fetchall():
            owners.setdefault(table, owner)
    of_plugin = {}
    described: dict[str, list[tuple[str, str]]] = {}
    for table, owner in owners.items():
        if table.startswith("sqlite_"):
            continue
        if owner:
            of_plugin.setdefault(owner, []).append(f"`{table}`")
            continue
        columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
        named = [(column, kind.lower() or "any") for _, column, kind, *_ in columns]
        twin = next((name for name, held in described.items() if held == named), None)
        described.setdefault(table, named)
        shown = (f"`{name}`{'' if kind == 'text' else f' {kind}'}" for name, kind in named)
        yield f"\n### {table}\n"
        yield f"Columns: those of {twin}." if twin else f"Columns: {', '.join(shown)}."
        indices = [row[1] for row in connection.execute(f"PRAGMA index_list({table})")]
        ours = sorted(index for index in indices if not index.startswith("sqlite_"))
        if ours:
            yield f"\nIndices: {', '.join(f'`{index}`' for index in ours)}."
    for owner, tables in of_plugin.items():
        yield f"\nThe plugin `{owner}` has {', '.join(tables)}."


def evaluators() -> str:
    """Return every built-in evaluator with what it needs."""
    parts = ["# Evaluators\n", NOTE.strip() + "\n", "## Heuristics\n"]
    parts += [
        "Heuristics are free. `in the call` means that the score is there before the decorated",
        "function returns; `in the background` means that the worker computes it.\n",
        "| name | needs | runs |",
        "| --- | --- | --- |",
    ]
    for name in registry.heuristics():
        found = registry.evaluator(name)
        where = "in the call" if found.inline else "in the background"
        runs = where if found.automatic else "when asked for"
        parts.append(f"| `{name}` | {_needs(found.needs)} | {runs} |")
    parts += [
        "\n## Against ground truth\n",
        "These heuristics compare with an expected answer, expected documents, a pattern or a",
        "schema. They run only where they are named. `k` stands for a number of ranks.\n",
        "| name | needs |",
        "| --- | --- |",
    ]
    parts += [
        f"| `{name}` | {_needs(registry.evaluator(name).needs)} |" for name in registry.expected()
    ]
    parts += [
        f"| `{family}:{of}` | {_needs(needs)} |"
        for family, of, needs in (
            ("precision_at_k", "k", RANKED),
            ("recall_at_k", "k", RANKED),
            ("ndcg_at_k", "k", RANKED),
            ("regex", "PATTERN", ("response|value",)),
            ("regex", "NAME=PATTERN", ("response|value",)),
            ("json_schema", "FILE", ("response|value",)),
        )
    ]
    parts += ["\n## Judges\n", "Judges ask a model, in the background and within the budget.\n"]
    parts += ["| name | needs | one rating for |", "| --- | --- | --- |"]
    for name in (*registry.judges(), *registry.table("library_judges")):
        found = registry.evaluator(name)
        scope = SCOPES[found.per]
        parts.append(f"| `{name}` | {_needs(found.needs)} | {scope} |")
    parts += [
        "\nRagas' other metrics go by name, such as `ragas:context_recall`; see",
        "[I lost my Ragas evaluators](../how-to/ragas.md#other-metrics-of-ragas).",
    ]
    return "\n".join(parts) + "\n"


RANKED = ("retrieved_context", "expected_retrieved_context")

SCOPES = {
    "answer": "the answer", "chunk": "each chunk", "step": "each tool call",
    "session": "the conversation",
}  # fmt: skip
"""What a judge rates at a time, as the page says it."""


def _needs(needs: tuple[str, ...]) -> str:
    return ", ".join(f"`{each}`".replace("|", "` or `") for each in needs) or "–"


PAGES = {
    "settings": settings,
    "cli": command_line,
    "attributes": attributes,
    "store": store,
    "evaluators": evaluators,
}

if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for page, text in PAGES.items():
        (FOLDER / f"{page}.md").write_text(text())
