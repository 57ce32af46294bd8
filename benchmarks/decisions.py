"""What decisions cost, beside a bare ``httpx2`` loop and chat judgements of the same run.

Servers run in processes of their own, over real HTTP: `benchmarks.decision_service` counts what it
is asked, `benchmarks.loopback` sustains a load and answers after 50 ms. Prints one row per figure
with the bar it has to clear, then the simulations of `benchmarks.quality.decided`, and exits 1 if a
bar is missed.

The pace compares the same server, the same bodies and the same number of requests at a time. The
bodies of the bare loop are made beforehand; ours are made while it runs, from the first traced call
of the app to the last outcome, and the app's calls are part of that time.

The latency of the app is measured against a server that leaves the processors to whoever else has
work to do, in all three rows. A model's server is on another machine: on two cores this one would
take a core from the app in just those rows in which it is asked, and in none of those without.
What is left is what the app's process does itself, and most of that is receiving answers at all:
the row of a thread that only posts says how much. No thread waits for the interpreter's lock
meanwhile; the slowest calls are those that the kernel interrupted to wake another thread up.

    python -m benchmarks.decisions [--quick] [--bad 0.1 --decision-accuracy 0.836 …]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

import httpx2

import llmeval_sdk as llmeval
from benchmarks import decision_service, loopback
from benchmarks.judging import Verdicts, record, request
from benchmarks.measures import Table, latencies, quantile
from benchmarks.quality import decided
from llmeval_sdk import registry
from llmeval_sdk.evaluation.budget import DECISION_BUDGET
from llmeval_sdk.evaluation.decisions import ACCOUNT, Decider
from llmeval_sdk.evaluation.limiter import BudgetLimiter, Unlimited
from llmeval_sdk.judges.models import OpenAILLM
from llmeval_sdk.judges.models.decisions import HttpDecisions
from llmeval_sdk.model import Decision
from llmeval_sdk.model.protocols import DecisionModel
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.store.state import HostLedger


JUDGES = [
    *(registry.evaluator(name) for name in ("groundedness", "relevance_to_query", "safety")),
    llmeval.LLMJudge("polite", "Is the answer polite?\n\n{response}"),
    llmeval.LLMJudge("complete", "Is the question answered in full?\n\n{request}\n\n{response}"),
]
NAME = "systemone/loopback"
PACE_SECONDS = 0.004
"""Between two requests of the app: 16 decisions at a time that take 50 ms keep up with them."""
AT_ONCE = 1_000
"""Records that may wait for a decision; see `llmeval_sdk.pipeline.judging.MAX_WAITING`."""


class App:
    """An app whose requests are decided, judged by five chat judgements, or neither."""

    number = 0

    def __init__(self, folder, kind, **options):
        self.kind = kind
        self.outcomes = Verdicts(kind)
        llmeval.configure(
            exporters=[self.outcomes],
            evaluators=[] if kind == "nothing" else JUDGES,
            escalations=[],
            heuristics="off",
            store=str(Path(folder) / "store.db"),
            **options,
        )
        self.run(2 * DECISION_BUDGET.concurrency)

    @classmethod
    def deciding(cls, folder, url):
        """Have five judges answered for by a decision model, with money for everything."""
        return cls(
            folder, "decision",
            decisions=HttpDecisions(
                NAME, base_url=url, budget=llmeval.Budget(tokens_per_minute=1e12)
            ),
        )  # fmt: skip

    @classmethod
    def judging(cls, folder, url):
        """Ask a judge model five times, as many at a time as decisions are."""
        limits = {"calls_per_minute": 10**7, "usd_per_day": None}
        budget = llmeval.Budget(**limits, concurrency=DECISION_BUDGET.concurrency)
        llm = OpenAILLM("loopback", base_url=url, api_key="k")
        return cls(folder, "judge", llm=llm, budget=budget)

    @classmethod
    def unjudged(cls, folder):
        """Trace, and judge nothing."""
        return cls(folder, "nothing")

    def call(self, _=None):
        """Answer one request, unlike any before."""
        App.number += 1
        request(App.number)

    @contextmanager
    def finishing(self, count):
        """Wait at the end until so many records have all their outcomes."""
        if self.kind == "nothing":
            yield
            llmeval.flush(30)
            return
        self.outcomes.awaited = self.outcomes.count + count * len(JUDGES)
        self.outcomes.enough.clear()
        yield
        if not self.outcomes.enough.wait(60):
            raise SystemExit(f"outcomes are missing: {llmeval.stats()}")

    def run(self, count):
        """Return records a second and CPU seconds a record, from traced calls to outcomes."""
        begun, cpu = time.time_ns(), time.process_time()
        with self.finishing(count):
            for _ in range(count):
                self.call()
        cpu = time.process_time() - cpu
        return count / (max(self.outcomes.last_ns - begun, 1)) * 1e9, cpu / count


class Keep(DecisionModel):
    """Keeps what would be asked, so that the bare loop sends what decisions send."""

    model = "loopback"

    async def decide(self, data, questions, /):
        self.data, self.questions = data, questions
        return Decision({})


def bodies(count):
    """Return the bodies of the requests for so many records."""
    keep = Keep()
    decider = Decider(keep, Unlimited())
    wire = HttpDecisions(NAME, base_url="http://localhost/v1").wire

    async def all_bodies():
        for number in range(count):
            await decider.decide(record(number), JUDGES)
            yield wire.body(keep.model, keep.data, keep.questions, None)

    async def gathered():
        return [body async for body in all_bodies()]

    return asyncio.run(gathered())


async def bare(url, asked):
    """Post all bodies, as many at a time as decisions are.

    Returns requests a second and CPU seconds a request.
    """
    async with httpx2.AsyncClient() as client:

        async def work(waiting):
            for body in waiting:
                response = await client.post(f"{url}/systemone", json=body)
                response.raise_for_status().json()

        async def post(part):
            waiting = iter(part)
            await asyncio.gather(*(work(waiting) for _ in range(DECISION_BUDGET.concurrency)))

        await post(asked[: 2 * DECISION_BUDGET.concurrency])
        begun, cpu = time.perf_counter(), time.process_time()
        await post(asked)
        took, cpu = time.perf_counter() - begun, time.process_time() - cpu
        return len(asked) / took, cpu / len(asked)


def one_request(table, url):
    """Decide one record by five judges, and count the requests that arrive."""
    outcomes = Verdicts("decision")
    before = decision_service.asked(url)
    with tempfile.TemporaryDirectory() as folder:
        llmeval.configure(
            exporters=[outcomes], evaluators=JUDGES, escalations=[], heuristics="off",
            decisions=HttpDecisions(NAME, base_url=url), store=str(Path(folder) / "store.db"),
        )  # fmt: skip
        request(0)
        llmeval.flush(30)
        requests = decision_service.asked(url) - before
        llmeval.shutdown(10)
    answered = outcomes.count - outcomes.failed
    table.row(
        f"requests for one record that {answered} judges have an outcome of",
        str(requests),
        "1, for 5",
        ok=(requests, answered) == (1, 5),
    )


def exact_budget(table, url, calls=200, threads=8):
    """Let eight threads, each with a loop of its own, ask for twice what one budget pays for."""
    before = decision_service.asked(url)
    granted, refused = [], []
    with tempfile.TemporaryDirectory() as folder:
        limiter = BudgetLimiter(
            llmeval.Budget(),
            HostLedger(Path(folder) / "store.ledger"),
            apart={ACCOUNT: llmeval.Budget(calls_per_minute=calls, usd_per_day=None)},
        )

        def spend(thread):
            async def decide_all():
                decider = Decider(HttpDecisions(NAME, base_url=url), limiter)
                for n in range(2 * calls // threads):
                    got = await decider.decide(record(f"{thread}.{n}"), JUDGES[:1])
                    error = got.evaluations["groundedness"].error
                    (granted if error is None else refused).append(error)

            asyncio.run(decide_all())

        workers = [threading.Thread(target=spend, args=(n,)) for n in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        limiter.close()
    requests = decision_service.asked(url) - before
    is_counted = all(error.type == "over_budget" for error in refused)
    table.row(
        f"requests of {threads} threads that want {2 * calls}, and may have {calls}",
        f"{requests} ({len(refused)} refused)",
        f"{calls}",
        ok=requests == len(granted) == calls == len(refused) and is_counted,
    )


def pace(table, folder, url, count, rounds):
    asked = bodies(count)
    app = App.deciding(folder, url)
    pairs = [(asyncio.run(bare(url, asked)), app.run(count)) for _ in range(rounds)]
    share = statistics.median(ours[0] / one[0] for one, ours in pairs)
    names = (
        f"bare httpx2 loop, {DECISION_BUDGET.concurrency} at a time",
        "records through the pipeline",
    )
    for name, measured in zip(names, zip(*pairs, strict=True), strict=True):
        rate, cost = (statistics.median(figures) for figures in zip(*measured, strict=True))
        table.row(name, f"{rate:.0f}/s, {cost * 1e3:.2f} ms CPU")
    table.row("share of the bare loop's pace", f"{share:.1%}", ">= 95%", ok=share >= 0.95)
    failed = app.outcomes.failed
    table.row("decisions that failed", str(failed), "0", ok=not failed)


@contextmanager
def posting(url, asked):
    """Post one body at the pace of the app's requests from a thread that does nothing else.

    No decisions can cost the app less than that: each answer has to be received in the
    app's process, by a thread that holds the interpreter's lock while it does so.
    """

    async def post_all():
        room = asyncio.Semaphore(DECISION_BUDGET.concurrency)

        async def post(body):
            async with room:
                response = await client.post(f"{url}/systemone", json=body)
                response.raise_for_status().json()

        async with httpx2.AsyncClient() as client:
            posts = []
            for body in asked:
                posts.append(asyncio.create_task(post(body)))
                await asyncio.sleep(PACE_SECONDS)
            await asyncio.gather(*posts)

    thread = threading.Thread(target=asyncio.run, args=(post_all(),))
    thread.start()
    yield
    thread.join()


def app_latency(table, folder, url, count, rounds):
    """Time the app's own requests, all of them decided, beside those of the app without judges.

    Between the two stands the app whose requests are not judged, while a thread of its process
    posts as many bodies.
    """
    asked = bodies(count)
    p99s = {"off": [], "posting": [], "on": []}
    for _ in range(rounds):
        for state, times in p99s.items():
            app = App.deciding(folder, url) if state == "on" else App.unjudged(folder)
            beside = posting(url, asked) if state == "posting" else nullcontext()
            with app.finishing(count), beside:
                times.append(quantile(latencies(app.call, None, count, PACE_SECONDS), 0.99))
    off, beside, on = (statistics.median(times) for times in p99s.values())
    floor, more = (
        statistics.median(b - a for a, b in zip(p99s["off"], p99s[state], strict=True))
        for state in ("posting", "on")
    )
    table.row("p99 of a request of the app, judging off", f"{off:.0f} us")
    table.row("p99 beside a thread that posts as many bodies and no more", f"{beside:.0f} us")
    table.row("p99 of a request of the app, each decided", f"{on:.0f} us")
    table.row("what that thread adds to the p99", f"{floor:+.0f} us")
    table.row("what deciding adds to the p99", f"{more:+.0f} us", "<= 50 us", ok=more <= 50)


def cpu(table, folder, decisions_url, chat_url, count, rounds):
    costs = {"decision": [], "judge": []}
    for _ in range(rounds):
        costs["decision"].append(App.deciding(folder, decisions_url).run(count)[1])
        costs["judge"].append(App.judging(folder, chat_url).run(count // 2)[1])
    one, five = (statistics.median(times) * 1e3 for times in costs.values())
    share = statistics.median(a / b for a, b in zip(*costs.values(), strict=True))
    table.row("CPU per record, five judges decided", f"{one:.2f} ms")
    table.row("CPU per record, five chat judgements", f"{five:.2f} ms")
    table.row("share of five chat judgements", f"{share:.1%}", "<= 25%", ok=share <= 0.25)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer records, rounds and seeds")
    decided.add_inputs(parser)
    inputs = parser.parse_args()
    count, rounds, seeds = (240, 3, 60) if inputs.quick else (AT_ONCE, 5, 300)
    table = Table()
    with tempfile.TemporaryDirectory() as folder, runtime.isolated():
        with decision_service.running() as url:
            one_request(table, url)
            exact_budget(table, url)
            body = bodies(1)[0]
            reply = httpx2.post(f"{url}/systemone", json=body).raise_for_status().json()
        with loopback.running(body=reply) as url, loopback.running() as chat_url:
            pace(table, folder, url, count, rounds)
            cpu(table, folder, url, chat_url, count // 3, rounds)
        with loopback.running(body=reply, aside=True) as url:
            app_latency(table, folder, url, count, rounds)
    decided.calibration(table, seeds)
    decided.cascade(inputs)
    sys.exit(1 if table.missed else 0)


if __name__ == "__main__":
    main()
