"""A command that a test calls in its own process does what it does in a process of its own."""

import pytest


COMMANDS = {
    "report": (0, "report --store STORE"),
    "report as JSON": (0, "report --json --store STORE"),
    "alert": (1, "report --alert groundedness<0.9 --store STORE"),
    "explain": (0, "explain --worst groundedness --store STORE"),
    "traces": (0, "traces --store STORE"),
    "export": (0, "export --store STORE"),
    "compare": (2, "compare --store STORE"),
    "watch": (2, "watch --once --alert groundedness --store STORE"),
    "prune": (0, "prune --max-days 1 --dry-run --store STORE"),
    "judges": (2, "judges nowhere.csv --store STORE"),
    "a command of before": (2, "calibrate --evaluator groundedness --store STORE"),
    "doctor": (0, "doctor --offline"),
    "evaluate": (2, "evaluate nowhere.jsonl"),
    "no store": (2, "report"),
    "no command": (2, ""),
    "no such option": (2, "explain --nonsense"),
}
"""Commands with the code that each exits with: a success, a finding, one that could not run."""


@pytest.mark.parametrize(("code", "command"), COMMANDS.values(), ids=COMMANDS)
def test_it_prints_and_exits_as_in_a_process_of_its_own(llmeval, process, store, code, command):
    """The exit code, and both streams to the letter."""
    with store.at_once():
        for number in range(40):
            span = store.span(f"{number + 1:016x}", trace_id=f"{number + 1:032x}", request="why")
            store.evaluation(
                span, "groundedness", "no" if number % 2 else "yes", evaluator_kind="judge",
                inclusion_probability=0.5,
            )  # fmt: skip
    words = [str(store.path) if word == "STORE" else word for word in command.split()]
    alone, here = process(*words), llmeval(*words)
    assert alone.returncode == code, alone.stdout + alone.stderr
    assert "Traceback" not in alone.stderr
    assert (here.returncode, here.stdout, here.stderr) == (
        (alone.returncode, alone.stdout, alone.stderr)
    )
