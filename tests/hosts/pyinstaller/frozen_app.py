"""An app as PyInstaller freezes it: it answers, runs our command, or says what it has of us."""

import importlib
import json
import sys
from importlib.resources import files

import llmeval_sdk as llmeval
from llmeval_sdk import cli


@llmeval.heuristic
def is_short(record: llmeval.Record) -> bool:
    return len(record.response or "") < 1_000


@llmeval.retrieval
def pages(file: str) -> list[dict]:
    return [{"content": "Subtotal 41.50\nTotal due 44.82", "doc_uri": file}]


@llmeval.workflow
def read_invoice(file: str) -> dict:
    pages(file)
    return {"total": "41.50"}


@llmeval.workflow(evaluators=["groundedness"])
def answer(question: str) -> str:
    llmeval.annotate(retrieved_context=[{"content": "The roof is of slate.", "doc_uri": "a"}])
    return "The roof is of slate."


def run() -> None:
    for number in range(10):
        read_invoice(f"invoice {number}")
    answer("What is the roof made of?")
    stats = llmeval.flush(timeout=60)
    rows = [{"request": "Of what?", "response": "Slate.", "retrieved_context": []}]
    report = llmeval.evaluate(rows, evaluators=["groundedness_risk"], progress=False)
    print(
        json.dumps(
            {
                "whole": stats.complete,
                "delivered": stats.delivered,
                "judged": stats.judged,
                "problems": stats.problems,
                "version": llmeval.__version__,
                "offline": len(report.rows),
            }
        )
    )


def missing(wanted: dict) -> None:
    """Print the modules and files of the package that this app does not have."""
    lacking = []
    for name in wanted["modules"]:
        try:
            importlib.import_module(name)
        except ImportError as error:  # another library that is not installed is no matter
            if (error.name or name).startswith("llmeval_sdk"):
                lacking.append(name)
    home = files("llmeval_sdk")
    lacking += [name for name in wanted["files"] if not home.joinpath(name).is_file()]
    print(json.dumps(lacking))


if __name__ == "__main__":
    if sys.argv[1:2] == ["llmeval"]:
        sys.exit(cli.main(sys.argv[2:]))
    elif sys.argv[1:2] == ["missing"]:
        missing(json.load(sys.stdin))
    else:
        run()
