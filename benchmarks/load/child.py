"""One process of one row of `benchmarks.load`: it prints what it measured as JSON.

    python -m benchmarks.load.child PACKAGE ROW OPTIONS

PACKAGE is the folder whose ``llmeval_sdk`` is measured, so that another commit runs the same work
as this one. The SDK is imported by the rows only, once that folder stands first on the path.
"""

import asyncio
import base64
import itertools
import json
import os
import random
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

from benchmarks.load.corpus import PASSAGES, Request, Texts, pages, sentences


STORE = Path(os.environ.get("LLMEVAL_STORE", "store.db"))  # noqa: TID251 - a new one for each row
SHAPES = {"5 × 70": (5, 70, 40), "10 × 300": (10, 300, 100), "20 × 700": (20, 700, 300)}
"""Passages of a request, the words of each, and the words of the answer."""
ALONE = SHAPES["10 × 300"]
SEEN = 100
"""Passages of the corpus whose passages were all seen before."""
TOGETHER = 200
"""Requests that wait together where a process works off alone: about a quarter of the queue."""
SHORT_NS = 5_000_000_000
"""A trace of less may not be broken."""
TWENTY_KB = 20_000
PIECE = 16_000
"""Characters of a text of which 1 MB is looked at."""


def configure(**settings):
    import llmeval_sdk as llmeval

    llmeval.configure(**settings)
    return llmeval


def request_app(llmeval):
    """Return an app that makes requests: a workflow with a retrieval and a model's call."""
    asked = Request("", [], "")

    @llmeval.retrieval
    def retrieve(question):
        return asked.chunks

    @llmeval.llm
    def generate(prompt):
        return asked.answer

    @llmeval.workflow
    def answer(question):
        retrieve(question)
        return generate(asked.prompt)

    def ask(request):
        nonlocal asked
        asked = request
        answer(request.question)

    return ask


# -- rows --------------------------------------------------------------------------------------------


def scored(requests, seed):
    """Return the milliseconds of all threads for a request of each shape, its passages new or not."""
    llmeval = configure(exporters=[discard()], background_share=1.0)
    ask, texts, spent = request_app(llmeval), Texts(seed), {}

    def work_off(batch):
        begun = time.process_time()
        for place, request in enumerate(batch):
            ask(request)
            if place % 10 == 9:
                llmeval.flush(60)
        llmeval.flush(60)
        return (time.process_time() - begun) / len(batch) * 1e3

    for name, shape in SHAPES.items():
        number, words, answered = shape
        corpus = texts.passages(SEEN, words, words)
        parts = [corpus[begin : begin + number] for begin in range(0, SEEN, number)]
        new = [texts.request(*shape) for _ in range(requests)]
        seen = [texts.request(*shape, corpus) for _ in range(requests)]
        work_off([texts.request(*shape) for _ in range(10)])
        spent[f"{name}, new"] = work_off(new)
        work_off([Request(texts.question(part), part, texts.words(answered)) for part in parts])
        spent[f"{name}, seen"] = work_off(seen)
    return spent


def alone(seconds, seed, heuristics):
    """Return how many requests the process works off a second by itself, on one core.

    They come in batches that no score has to give way for, and nothing hastens the worker.
    """
    one_core()
    llmeval = configure(exporters=["local"], heuristics=heuristics)
    ask, texts = request_app(llmeval), Texts(seed)

    def work_off(number):
        """Return seconds of the clock and of the processor from when the app was done."""
        for request in [texts.request(*ALONE) for _ in range(number)]:
            ask(request)
        begun, used = time.perf_counter(), time.process_time()
        while llmeval.stats().undelivered:
            time.sleep(0.005)
        return time.perf_counter() - begun, time.process_time() - used

    work_off(5)  # loads what is loaded once
    took = used = requests = 0
    while took < seconds:
        clock, cpu = work_off(TOGETHER)
        took, used, requests = took + clock, used + cpu, requests + TOGETHER
    return {"a_second": requests / took, "milliseconds": used / requests * 1e3}


def delivery(rate, seconds, exporters):
    """Make so many spans a second with 20 KB in and out; say what became of them.

    The processor time in the background is for each that was not dropped.
    """
    llmeval = configure(exporters=exporters)
    echo, questions = echo_app(llmeval)
    before = llmeval.flush(60).exporters
    made = int(rate * seconds)
    cpu, own = time.process_time(), time.thread_time()
    begun = time.perf_counter()
    for number in range(made):
        time.sleep(max(0.0, begun + number / rate - time.perf_counter()))
        echo(questions(number))
    time.sleep(max(0.0, begun + seconds - time.perf_counter()))
    ended = llmeval.stats().exporters
    late = time.perf_counter() - begun - seconds
    llmeval.flush(120)
    background = time.process_time() - cpu - (time.thread_time() - own)
    shares = []
    for name, account in llmeval.stats().exporters.items():
        created = account.created - before[name].created
        delivered = ended[name].delivered - before[name].delivered
        shares.append((delivered / created, sum(account.dropped.values()) / created))
    dropped = max(share for _, share in shares)
    return {
        "delivered": min(share for share, _ in shares),
        "dropped": dropped,
        "background_ms": background / (made * (1 - dropped)) * 1e3,
        "late_s": late,
    }


def burst(spans, seconds):
    """Make spans of 20 KB from an event loop; say which arrived and how late its timers fired."""
    llmeval = configure(exporters=["local"])
    echo, questions = echo_app(llmeval)
    llmeval.flush(60)
    warm = spans_in_store()

    async def make(call):
        late, made = [], 0

        async def watch():
            while made < spans:
                begun = time.perf_counter()
                await asyncio.sleep(0.001)
                late.append((time.perf_counter() - begun - 0.001) * 1e3)

        watching = asyncio.create_task(watch())
        begun = time.perf_counter()
        while made < spans:
            await asyncio.sleep(begun + made * seconds / spans - time.perf_counter())
            call(questions(made))
            made += 1
        await watching
        return sorted(late)

    plain = asyncio.run(make(lambda question: question))
    ours = asyncio.run(make(echo))
    llmeval.flush(120)
    return {
        "arrived": (spans_in_store() - warm) / spans,
        "stall_ms": ours[len(ours) * 99 // 100],
        "plain_ms": plain[len(plain) * 99 // 100],
    }


def hints():
    """Return the milliseconds that looking for secrets in 1 MB of each kind of text takes."""
    from llmeval_sdk.exporters.redaction import Redactor

    redactor, dice = Redactor(("api_key", "jwt")), random.Random(1)
    words = sorted({word for line in sentences() for word in line.split() if word.isalpha()})
    written, begins = pages(), itertools.count(0, PIECE)

    def documentation():
        begin = next(begins) % (len(written) - PIECE)
        return written[begin : begin + PIECE]

    kinds = {
        "English documentation": documentation,
        "plain words": lambda: " ".join(dice.choices(words, k=PIECE))[:PIECE],
        "base64": lambda: base64.b64encode(dice.randbytes(PIECE * 3 // 4)).decode(),
    }
    spent = {}
    for kind, make in kinds.items():
        best = float("inf")
        for _ in range(7):
            records = [[make()] for _ in range(1_000_000 // PIECE)]
            begun = time.thread_time()
            for value in records:
                redactor.may_concern(value)
            best = min(best, time.thread_time() - begun)
        spent[kind] = best * 1e3
    return spent


def overload(rate, seconds, seed):
    """Make more requests than are worked off; compare what the store says with what was made."""
    one_core()
    llmeval = configure(exporters=["local"])
    texts, dice = Texts(seed), random.Random(seed)
    pool = [texts.request(*ALONE) for _ in range(200)]
    made = tokens = 0

    @llmeval.retrieval
    def retrieve(request):
        return request.chunks

    @llmeval.llm
    async def generate(prompt, answer):
        nonlocal tokens
        used = dice.randint(100, 5_000)
        llmeval.annotate(metrics={"input_tokens": used, "output_tokens": 1})
        await asyncio.sleep(dice.uniform(0.3, 1.0))
        tokens += used
        return answer

    @llmeval.workflow
    async def answer(question, request):
        nonlocal made
        retrieve(request)
        said = await generate(request.prompt, request.answer)
        made += 1
        return said

    async def load():
        begun, number, tasks = time.perf_counter(), 0, []
        while time.perf_counter() - begun < seconds:
            await asyncio.sleep(begun + number / rate - time.perf_counter())
            request = pool[number % len(pool)]
            tasks.append(asyncio.create_task(answer(f"{number}: {request.question}", request)))
            number += 1
        await asyncio.gather(*tasks)

    asyncio.run(load())
    llmeval.flush(120)
    llmeval.shutdown(60)
    return {"made": made, "tokens": tokens, **stored()}


def stored():
    """Return what is broken of a store's traces, and its totals weighted by their probability."""
    with opened() as store:
        columns = {row[1] for row in store.execute("PRAGMA table_info(spans)")}
        weighted = "inclusion_probability" in columns
        chance = "ifnull(inclusion_probability, 1.0)" if weighted else "1.0"
        traces = store.execute(
            f"SELECT count(*), sum(kind = 'workflow'), min({chance}), sum(input_tokens),"
            f" max(end_ns) - min(start_ns) < {SHORT_NS} FROM spans GROUP BY trace_id"
        ).fetchall()
    parts = [spans < 3 or not root for spans, root, _, _, short in traces if short]
    return {
        "traces": len(traces),
        "broken": sum(parts),
        "requests_told": estimate((1, chance) for _, root, chance, _, _ in traces if root),
        "tokens_told": estimate((used, chance) for _, _, chance, used, _ in traces if used),
    }


def estimate(rows):
    """Return a total by weighting, with the half of its interval of 99 %."""
    total = variance = 0.0
    for value, chance in rows:
        total += value / chance
        variance += value * value * (1 - chance) / chance**2
    return total, 2.576 * variance**0.5


def stored_bytes(requests, seed, repeated):
    """Keep requests of 7 passages of 250 words, new ones or some of a corpus of 2,000."""
    llmeval = configure(exporters=["local", "otlp"], background_share=1.0)
    ask, texts = request_app(llmeval), Texts(seed)
    corpus = texts.passages(PASSAGES, 250, 250) if repeated else None
    for place in range(requests):
        ask(texts.request(7, 250, 115, corpus))
        if place % 25 == 24:
            llmeval.flush(60)
    llmeval.shutdown(120)
    taken = sum(file.stat().st_size for file in STORE.parent.glob(f"{STORE.name}*"))
    return {"bytes": taken, "lost": llmeval.stats().losses}


# -- what they share ---------------------------------------------------------------------------------


def opened():
    return closing(sqlite3.connect(STORE))  # noqa: TID251 - nothing traces this process


def spans_in_store():
    with opened() as store:
        return store.execute("SELECT count(*) FROM spans").fetchone()[0]


def discard():
    from benchmarks.app import Discard

    return Discard()


def echo_app(llmeval):
    """Return a traced function with 20 KB of English in and out, and what makes its arguments.

    It was called often enough to have loaded what is loaded once.
    """
    texts, calls = Texts(20), itertools.count()
    pool = [texts.characters(TWENTY_KB) for _ in range(100)]

    @llmeval.workflow
    def echo(question):
        number = next(calls)
        return f"{number}: {pool[(number + 50) % len(pool)]}"

    def question(number):
        return f"{number}: {pool[number % len(pool)]}"

    for number in range(50):
        echo(question(number))
    return echo, question


def one_core():
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


ROWS = {
    row.__name__: row for row in (scored, alone, delivery, burst, hints, overload, stored_bytes)
}


def main(package, row, options):
    sys.path.insert(0, package)
    import llmeval_sdk

    where = Path(llmeval_sdk.__file__).resolve().parents[1]
    if where != Path(package).resolve():
        raise SystemExit(f"{where} was imported in place of {package}")
    return ROWS[row](**options)


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))), flush=True)
