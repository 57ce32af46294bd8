"""Two versions of an app on the same rows: what changed for sure, and the answers side by side.

`llmeval view` lists saved reports on its page of experiments and compares any two of them; a
notebook shows a report as a table.
"""

import tempfile
from pathlib import Path

import llmeval_sdk as llmeval


MATERIALS = ("slate", "thatch", "copper", "tiles", "shingle", "turf")
ROWS = [
    {
        "request_id": f"house-{number}",
        "request": f"What is the roof of house {number} made of?",
        "expected_response": material,
    }
    for number, material in enumerate(MATERIALS * 5)
]


def first_version(question: str) -> str:
    """Answer as the app did before: at length, and sometimes wrongly."""
    number = int(question.split()[6])
    return f"As far as anybody knows, it is made of {MATERIALS[number % 4]}."


def second_version(question: str) -> str:
    """Answer as the app does now."""
    number = int(question.split()[6])
    return MATERIALS[number % 6].capitalize()


folder = Path(tempfile.mkdtemp())
reports = {}
for version in (first_version, second_version):
    report = llmeval.evaluate(
        ROWS,
        model=version,
        evaluators=["contains", "token_f1"],
        experiment=version.__name__,
        progress=False,
    )
    report.save(folder / f"{version.__name__}.jsonl")
    reports[version.__name__] = report

compared = reports["second_version"].compare(reports["first_version"])
print(compared)
page = folder / "compared.html"
page.write_text(reports["second_version"].to_html(compared=compared), "utf-8")
print(f"{len(compared.rows)} of {compared.changed} changed rows side by side in {page.name}")
print("in a notebook:", reports["second_version"]._repr_html_()[:60], "…")
