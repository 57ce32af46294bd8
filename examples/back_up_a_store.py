"""A backup while the app writes: one folder with all that lies beside the store, checked."""

import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import llmeval_sdk as llmeval
from llmeval_sdk.store.reader import StoreReader


folder = Path(tempfile.mkdtemp())
store = folder / "live" / "llmeval.db"
llmeval.configure(exporters=["local"], store=store)
is_over = threading.Event()


@llmeval.workflow
def answer(question: str) -> str:
    return f"You asked: {question}"


def serve() -> None:
    """Answer until somebody says that it is enough."""
    while not is_over.wait(0.005):
        answer("What is the roof made of?")


app = threading.Thread(target=serve)
app.start()
answer("Is anybody there?")
llmeval.flush()
command = ["backup", str(folder / "monday"), "--store", str(store)]
subprocess.run([sys.executable, "-m", "llmeval_sdk", *command], check=True)  # noqa: S603
is_over.set()
app.join()
llmeval.shutdown()
for name in ("live", "monday"):
    with StoreReader(folder / name / "llmeval.db") as reader:
        print(f"{name}: {reader.counts().spans} spans")
