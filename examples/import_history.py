"""History comes back: export a store, import it elsewhere, twice, and a broken line is told."""

import tempfile
from pathlib import Path

import llmeval_sdk as llmeval
from llmeval_sdk.cli import main
from llmeval_sdk.store.dump import DumpScope, dump
from llmeval_sdk.store.reader import StoreReader


folder = Path(tempfile.mkdtemp())
live, archive = folder / "live.db", folder / "archive.db"
llmeval.configure(exporters=["local"], store=live)


@llmeval.workflow
def answer(question: str) -> str:
    return f"You asked: {question}"


def run(*args: object) -> int:
    """Run `llmeval` with these arguments, and return its exit code."""
    return main([str(arg) for arg in args])


for number in range(3):
    answer(f"What is roof {number} made of?")
llmeval.shutdown()

history = folder / "history.jsonl"
run("export", "--store", live, "--out", history)
with history.open("a") as file:
    file.write('{"trace_id": "cut o\n')  # as a full disk leaves it

for attempt in ("first", "second"):  # the second one finds everything there already
    print(f"{attempt}: exit code {run('import', history, '--store', archive)}")

with StoreReader(live) as before, StoreReader(archive) as after:
    spans = [list(dump(reader, DumpScope())) for reader in (before, after)]
    print("the same spans, scores and times:", spans[0] == spans[1])
