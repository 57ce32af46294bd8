"""What handing judgements to a fleet costs, and how fast a fleet is beside judges in process.

    python -m benchmarks.fleet [--quick]

Needs redis-server and the extra ``fleet``. Prints each figure beside the bar it has to clear.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from fleet_parts import (
    account,
    environment,
    judging,
    lasting_redis,
    redis_is_missing,
    until,
    worker,
)
from machine import slowdown

from llmeval_sdk.config import Settings
from llmeval_sdk.plugins.fleet.settings import FleetSettings
from llmeval_sdk.plugins.shared.settings import RedisAddress
from llmeval_sdk.testing.judge_server import JudgeServer


BARS = {20: 60.0, 1: 600.0}
"""Microseconds of processor time for each judgement, by judgements in a message: on a machine as fast
as that of the bars; see `machine.slowdown`."""
PACE_BAR = 0.95


def hand_over(redis: Any, in_message: int, judgements: int) -> float:
    """Return the µs of processor time that one judgement costs the thread that sends it."""
    from types import SimpleNamespace

    from llmeval_sdk.config import Secret
    from llmeval_sdk.evaluation.admission import Admitted
    from llmeval_sdk.model import Chunk, Record, Target
    from llmeval_sdk.pipeline.judging import Job, QueuedJob
    from llmeval_sdk.plugins.fleet._client import FleetClient

    own = FleetSettings(
        judge_queue=RedisAddress(redis.address), fleet_key=Secret("the-key-of-the-benchmark")
    )
    plan = SimpleNamespace(
        decisions=None, exporters=(), spool=None, concurrency=8, models=lambda: None, verdicts=lambda: None,
        redactor=SimpleNamespace(has_custom=False),
    )  # fmt: skip
    dispatcher = SimpleNamespace(emit_judged=print)
    asking = FleetClient(plan, dispatcher, Settings(extensions={FleetSettings: own}))  # type: ignore[arg-type]
    record = Record(
        request="What is the roof made of, and when was it last repaired?" * 2,
        response="The roof is made of slate and was last repaired in 2019." * 4,
        retrieved_context=tuple(
            Chunk(f"{n} " + "The roof is made of slate. " * 18, f"doc-{n}.pdf", score=0.5)
            for n in range(5)
        ),
    )
    judge = SimpleNamespace(name="groundedness")
    spent = 0.0
    for begin in range(-in_message * 5, judgements, in_message):
        for n in range(begin, begin + in_message):
            target = Target(
                f"{n + 10**6:032x}", f"{n + 10**6 + in_message * 10**8:016x}", "a", "workflow"
            )
            asking._turns.add(QueuedJob(Job(judge, record, target, Admitted(1.0, "asked"))))  # type: ignore[arg-type]
        begun = time.thread_time()
        asking._send(asking._next_turns())
        if begin >= 0:
            spent += time.thread_time() - begun
    return spent / judgements * 1e6


APP = """
import sys, time
import llmeval_sdk as llmeval
llmeval.configure(evaluators=["groundedness"], escalations=[], heuristics="off", background_share=1.0,
                  exporters=["local"])
n = int(sys.argv[1])
begun = time.monotonic()
for number in range(n):
    with llmeval.workflow("answer", request=f"What is roof {number} made of?") as span:
        span.response = f"Slate {number}."
        span.retrieved_context = [f"Roof {number} is made of slate."]
done = lambda: llmeval.stats().judged.get("groundedness", 0)
times = {}
while (now := done()) < n and time.monotonic() - begun < 240:
    times.setdefault(now, time.monotonic())
    time.sleep(0.01)
times[now] = time.monotonic()
early, late = (min((count for count in times if count >= n * share), default=now) for share in (0.2, 0.8))
pace = (late - early) / max(times[late] - times[early], 0.001)
print(now, time.monotonic() - begun, pace, llmeval.stats().not_run)
"""


def _judgements_a_second(env: dict[str, str], judgements: int) -> tuple[float, float]:
    """Return the pace of the three fifths in the middle, and that of the whole run.

    The whole run has a start, and an end at which a worker has nothing left while another finishes
    the messages that it took: how much both weigh depends on the length of the run alone.
    """
    done = subprocess.run(
        [sys.executable, "-c", APP, str(judgements)],
        env=env, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    made, seconds, pace = done.stdout.split()[:3]
    if int(made) != judgements:
        raise RuntimeError(f"{made} of {judgements}: {done.stdout}")
    return float(pace), judgements / float(seconds)


def paces(
    redis: Any, folder: Path, judgements: int
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return judgements a second in process and by two workers, with 16 at a time in both."""
    with JudgeServer(default="slow", delay=0.5) as server:
        env = environment(redis.address, folder)
        alone = judging(env, server, LLMEVAL_JUDGE_CONCURRENCY="16")
        alone.pop("LLMEVAL_JUDGE_QUEUE")
        half = {"LLMEVAL_JUDGE_CONCURRENCY": "8"}
        in_process = _judgements_a_second(alone, judgements)
        with worker(judging(env, server, **half)), worker(judging(env, server, **half)):
            until(lambda: redis.client().hlen("llmeval.workers") == 2, "two workers")
            time.sleep(2)  # they have said so; now they connect to the queue
            return in_process, _judgements_a_second(env, judgements)


def main() -> int:
    """Print the figures; 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    options = parser.parse_args()
    if missing := redis_is_missing():
        print(f"NOT MEASURED: {missing}")
        return 1
    missed = False
    with tempfile.TemporaryDirectory(prefix="llmeval-fleet-") as folder:
        redis = lasting_redis(folder)
        redis.start()
        try:
            for in_message, bar in BARS.items():
                judgements = 100 if options.quick else 200
                figure = min(
                    hand_over(redis, in_message, judgements) / slowdown() for _ in range(20)
                )
                redis.client().flushall()
                missed |= figure > bar
                print(
                    f"hand-over, {in_message:>2} in a message   {figure:7.1f} µs a judgement   (bar {bar:g})"
                )
            one, fleet = paces(redis, Path(folder), 320 if options.quick else 960)
            share = fleet[0] / one[0]
            missed |= share < PACE_BAR
            print(
                f"judges in process              {one[0]:7.1f} a second, 16 at a time, 0.5 s each; "
                f"{one[1]:.1f} with start and end"
            )
            print(
                f"two workers                    {fleet[0]:7.1f} a second: {share:.0%}   (bar {PACE_BAR:.0%}); "
                f"{fleet[1]:.1f} with start and end: {fleet[1] / one[1]:.0%}"
            )
            now = account(redis)
            print(
                f"account: asked {now.asked} = judged {now.judged} + refused {sum(now.refused.values())} + waiting {now.waiting}"
            )
        finally:
            redis.kill()
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
