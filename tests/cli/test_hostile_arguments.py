"""An option never ends in a traceback, whatever it is given: each command says one line, and exits with 2."""

import argparse

import pytest

from llmeval_sdk import cli, registry


HOSTILE = {
    "half a character": "\ud800",
    "half a character in a condition": "tag:team=\udcff",
    "half a character in a name": "score:\ud800<1",
    "half a character in an alert": "groundedness\ud800<1",
    "a line end": "\r",
    "a line end in a condition": "tag:team=a\rb",
    "a line end in a name": "tag:a\rb=c",
    "NUL": "tag:team=\0",
    "centuries": "99999999999999w",
    "a date after the last": "9999-12-31T23:59",
    "a date before the first": "0001-01-01T00:00+23:59",
    "four hundred digits": "9" * 400,
    "five thousand digits": "9" * 5_000,
    "an alert of digits": "groundedness<" + "9" * 400,
    "no number": "nan",
    "a huge number": "1e308",
    "minus one": "-1",
    "an odd digit": "²",
    "steering": "\x1b[2J",
    "thirty thousand letters": "x" * 30_000,
    "nothing": "",
}
COMMANDS = {
    "report": (),
    "compare": (),
    "label": ("--list",),
    "traces": (),
    "dataset": (),
    "evaluate": ("rows.jsonl", "--evaluators", "exact_match"),
    "explain": ("0000000000000001",),
    "export": (),
    "import": ("rows.jsonl",),
    "prune": ("--dry-run",),
    "backup": (),
    "accept": ("--field", "total"),
    "judges": ("--evaluator", "groundedness"),
    "watch": ("--once", "--alert", "groundedness<0.5"),
}
"""The commands that end by themselves, with what each needs besides one hostile argument."""


def _parsers(parser, words):
    """Yield the parser of a command, or those of its subcommands, with the words that call it."""
    inner = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not inner:
        yield parser, words
    for subcommands in inner:
        for name, subparser in subcommands.choices.items():
            yield from _parsers(subparser, [*words, name])


def _calls(command):
    """Yield the words of calls with one hostile argument each, before which all others fit."""
    whole = cli._parser([command])
    (subcommands,) = [each for each in whole._actions if each.dest == "command"]
    for parser, words in _parsers(subcommands.choices[command], [command]):
        actions = [each for each in parser._actions if each.nargs != 0 and not each.choices]
        texts = [each for each in actions if each.option_strings]
        places = [each for each in actions if not each.option_strings and each.dest != "help"]
        needed = [
            word for each in texts if each.required for word in (each.option_strings[-1], "x")
        ]
        usual = [*COMMANDS[command], *needed]
        if not COMMANDS[command]:
            usual += ["x" for each in places if each.nargs in (None, "+")]
        store = ["--store", "STORE"] if any(each.dest == "store" for each in texts) else []
        for text in HOSTILE.values():
            for each in texts:
                option = each.option_strings[-1]
                of_store = [] if each.dest == "store" else store
                yield [*words, *usual, *of_store, f"{option}={text}"]
            if places:
                yield [*words, *store, text]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_argument_ends_in_a_traceback(llmeval, store, tmp_path, command):
    """Every option and place of a command that takes a text or a number is given each hostile one."""
    if command == "watch" and command not in registry.table("commands"):
        pytest.skip("its plugin is not there")
    (tmp_path / "rows.jsonl").write_text('{"request": "Which roof?", "response": "slate"}\n')
    for number in (1, 2):
        span = store.span(f"{number:016x}", trace_id=f"{number:032x}", tags={"team": "a"})
        store.evaluation(
            span, "groundedness", "no", evaluator_kind="judge", inclusion_probability=0.5
        )
    calls = [
        [str(store.path) if word == "STORE" else word for word in call] for call in _calls(command)
    ]
    assert len(calls) >= len(HOSTILE)
    for call in calls:
        done = llmeval(*call)
        assert done.returncode in (0, 1, 2), (call, done.stderr)
        assert "Traceback" not in done.stderr, (call, done.stderr)


@pytest.mark.parametrize(
    "option",
    [
        ("--where", "tag:team=\udcff"),
        ("--where", "tag:team=a\rb"),
        ("--since", "99999999999999w"),
        ("--since", "9999-12-31"),
        ("--until", "0001-01-01T00:00+23:59"),
        ("--evaluator", "\ud800"),
        ("--alert", "groundedness<" + "9" * 400),
        ("--span-name", "a\0b"),
    ],
    ids=repr,
)
def test_what_a_store_cannot_hold_is_refused_in_one_sentence(llmeval, store, option):
    """The last line says what is wrong, and the exit code is that of other errors of usage."""
    span = store.span("01" * 8)
    store.evaluation(span, "groundedness", "no", evaluator_kind="judge", inclusion_probability=0.5)
    done = llmeval("report", "--store", store.path, *option)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("llmeval report: ") or last.startswith("llmeval: error: ")


def test_a_file_whose_name_is_no_utf8_is_still_read(llmeval, store, tmp_path):
    """Odd bytes of the command line are refused where they are a text, and not where they are a name."""
    store.span("01" * 8)
    odd = tmp_path / "caf\udce9.jsonl"
    assert llmeval("export", "--store", store.path, "--out", odd).returncode == 0
    done = llmeval("import", odd, "--store", tmp_path / "other.db")
    assert done.returncode == 0, done.stderr
    assert "imported 1 span" in done.stdout
