"""What all rows of `benchmarks.load` share: options, processes of their own, figures beside bars."""

import json
import os
import subprocess
import sys

from benchmarks.against import ROOT


class Bench:
    """What all rows need: the table, the options, and a folder with a sink of OTLP."""

    def __init__(self, table, options, folder, otlp):
        self.table, self.options = table, options
        self.folder, self.otlp = folder, otlp
        self._stores = 0

    @property
    def rounds(self):
        return 1 if self.options.quick else 3

    def seconds(self, usual, longer=None):
        """Return how long to measure, by the options."""
        if self.options.quick:
            return usual / 4
        return longer if longer and self.options.long else usual

    def environment(self, **settings):
        """Return an environment in which only these are settings of ours, with a new store."""
        self._stores += 1
        store = self.folder / f"{self._stores}" / "store.db"
        store.parent.mkdir()
        clean = {
            name: value
            for name, value in os.environ.items()  # noqa: TID251 - handed to child processes
            if not name.startswith(("LLMEVAL_", "DD_", "OTEL_", "OPENAI_"))
        }
        ours = {"LLMEVAL_STORE": str(store), "OTEL_EXPORTER_OTLP_ENDPOINT": self.otlp}
        return {**clean, **ours, "PYTHONPATH": str(ROOT), **settings}

    def child(self, row, *, package=ROOT, **options):
        """Measure a row in a process of its own, by the SDK in a folder."""
        command = [sys.executable, "-m", "benchmarks.load.child", str(package), row]
        done = subprocess.run(
            [*command, json.dumps(options)],
            env=self.environment(), cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{row} of {package} broke off:\n{done.stderr[-2_000:]}")
        return json.loads(done.stdout)

    def at_most(self, figure, value, bar, unit, more=""):
        """Print a figure that may not be above its bar, if it has one."""
        shown = "" if bar is None else f"≤ {bar:g} {unit}"
        self.table.row(figure, measured(value, unit, more), shown, ok=bar is None or value <= bar)

    def at_least(self, figure, value, bar, unit):
        """Print a figure that may not be below its bar."""
        self.table.row(figure, measured(value, unit), f"≥ {bar:g} {unit}", ok=value >= bar)


def measured(value, unit, more=""):
    """Write a value with its unit, in three digits or more."""
    decimals = max(0, 3 - len(f"{value:.0f}"))
    return f"{value:,.{decimals}f} {unit} {more}".strip()
