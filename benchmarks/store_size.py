"""How large the store gets: megabytes for a thousand requests that retrieve passages.

A request finds seven passages of 250 words, puts them into a prompt and answers in 100 words. The
passages come from a corpus of two thousand, or each is new. It prints the size of the file, and the
processor time that writing it took. Exits 1 if a bar is missed.

    python -m benchmarks.store_size [--requests 1000]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from unittest import mock

import llmeval_sdk as llmeval
from benchmarks.measures import Table
from llmeval_sdk.exporters.local import LocalExporter
from llmeval_sdk.model import Batch
from llmeval_sdk.store.writer import StoreWriter


PASSAGES, PASSAGE_WORDS, ANSWER_WORDS = 7, 250, 100
CORPUS = 2_000
FROM_CORPUS, ALL_NEW = "passages of a corpus of 2,000", "passages all new"
BARS = {FROM_CORPUS: 8.0, ALL_NEW: 14.0}
VOCABULARY = 12_000


def words(chance: random.Random) -> Callable[[int], str]:
    """Return a function that writes texts of so many words, common ones more often than rare ones.

    The words are made up, as long as English ones, and so frequent as Zipf's law says, so that
    texts compress about as English does.
    """
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    weights = [12.0 / (1 + place / 2) for place in range(len(letters))]
    lengths = [2, 3, 3, 4, 4, 4, 5, 5, 6, 7, 8, 9, 10]
    known = [
        "".join(chance.choices(letters, weights, k=n))
        for n in chance.choices(lengths, k=VOCABULARY)
    ]
    frequencies = [1 / (rank + 3) for rank in range(VOCABULARY)]

    def text(count: int) -> str:
        listed = chance.choices(known, frequencies, k=count)
        for place in range(0, count, 14):
            listed[place] = listed[place].capitalize()
            listed[place - 1] += "."
        return " ".join(listed)

    return text


class Service:
    """Answers questions; what it finds and says is made up beforehand."""

    def __init__(self, passages: Callable[[], list[str]], text: Callable[[int], str]) -> None:
        self.passages, self.text = passages, text

    @llmeval.retrieval
    def search(self, question: str) -> list[dict[str, str]]:
        found = self.passages()
        return [{"content": text, "chunk_id": str(place)} for place, text in enumerate(found)]

    @llmeval.llm(model_name="measured", model_provider="nobody")
    def chat(self, messages: list[dict[str, str]]) -> dict[str, str]:
        return {"role": "assistant", "content": self.text(ANSWER_WORDS)}

    @llmeval.workflow
    def ask(self, question: str) -> str:
        chunks = self.search(question)
        listed = "\n\n".join(f"[{n}] {chunk['content']}" for n, chunk in enumerate(chunks, 1))
        prompt = f"Answer by these passages alone.\n\n{listed}\n\nQuestion: {question}"
        system = {"role": "system", "content": "You answer questions about rules."}
        return self.chat([system, {"role": "user", "content": prompt}])["content"]


def measure(folder: Path, service: Service, requests: int) -> tuple[float, float]:
    """Return the megabytes of a thousand requests and the writer's milliseconds for one."""
    path = folder / "own" / "llmeval.db"
    seconds = 0.0
    export = LocalExporter.export

    def timed(exporter: LocalExporter, batch: Batch) -> Mapping[str, int] | None:
        nonlocal seconds
        begun = time.thread_time()
        try:
            return export(exporter, batch)
        finally:
            seconds += time.thread_time() - begun

    with mock.patch.object(LocalExporter, "export", timed):
        llmeval.configure(exporters=["local"], store=str(path))
        for number in range(requests):
            service.ask(service.text(12))
            if number % 25 == 24:
                llmeval.flush(60)
        llmeval.shutdown(60)
    with closing(StoreWriter(path)) as writer:
        writer.settle()
    return path.stat().st_size / 1e3 / requests, seconds * 1e3 / requests


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1_000)
    requests = parser.parse_args().requests
    chance = random.Random(1)
    text = words(chance)
    corpus = [text(PASSAGE_WORDS) for _ in range(CORPUS)]
    sources = {
        FROM_CORPUS: lambda: chance.sample(corpus, PASSAGES),
        ALL_NEW: lambda: [text(PASSAGE_WORDS) for _ in range(PASSAGES)],
    }
    table = Table()
    for name, passages in sources.items():
        with tempfile.TemporaryDirectory() as folder:
            size, milliseconds = measure(Path(folder), Service(passages, text), requests)
        bar = BARS[name]
        table.row(f"a thousand requests, {name}", f"{size:.1f} MB", f"< {bar} MB", ok=size < bar)
        table.row(f"writing one, {name}", f"{milliseconds:.2f} ms")
    return bool(table.missed)


if __name__ == "__main__":
    sys.exit(main())
