"""Evaluators as a package of their own: an entry point makes them known by name.

The package names its evaluators in its pyproject.toml; whoever installs it can write the name in
``LLMEVAL_EVALUATORS``, in ``evaluators=`` or on the command line. Here a folder stands for the
installed package, with the same files that pip would have written.

    [project.entry-points."llmeval_sdk.evaluators"]
    politeness = "polite_evaluators:politeness"
"""

import sys
import tempfile
from pathlib import Path


MODULE = '''
from llmeval_sdk.model import Record


class Politeness:
    """A free evaluator: the share of polite words that an answer has."""

    kind, name, version = "heuristic", "politeness", "1"
    needs = ("response",)
    inline = automatic = False  # in the background, and where it is asked for

    def evaluate(self, record: Record, /) -> float:
        words = ("please", "thank", "welcome")
        return sum(word in str(record.response).lower() for word in words) / len(words)


politeness = Politeness()
'''
METADATA = "Metadata-Version: 2.1\nName: polite-evaluators\nVersion: 1.0\n"
ENTRY_POINTS = "[llmeval_sdk.evaluators]\npoliteness = polite_evaluators:politeness\n"

site = Path(tempfile.mkdtemp())
about = site / "polite_evaluators-1.0.dist-info"
about.mkdir()
(site / "polite_evaluators.py").write_text(MODULE)
(about / "METADATA").write_text(METADATA)
(about / "entry_points.txt").write_text(ENTRY_POINTS)
sys.path.append(str(site))  # what `pip install polite-evaluators` amounts to

import llmeval_sdk as llmeval  # noqa: E402


rows = [
    {"request": "May I come in?", "response": "Please do, you are welcome."},
    {"request": "May I come in?", "response": "No."},
]
report = llmeval.evaluate(rows, evaluators=["politeness"])
for row in report.rows:
    print(row.record.response, "->", row.evaluations["politeness"].value)
