"""What `make demo-fleet` shows: two apps, two workers, one of them killed, and the account.

It takes the Redis of LLMEVAL_JUDGE_QUEUE, or starts one of its own in a temporary folder. The judge
is the stand-in (rules, no model), which takes a fifth of a second for each judgement.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path


sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
from fleet_parts import (
    APP,
    account,
    environment,
    judging,
    kill_group,
    lasting_redis,
    redis_is_missing,
    start_worker,
    until,
)

from llmeval_sdk.testing.judge_server import JudgeServer


REQUESTS = 100


class RunningRedis:
    """The Redis that is there already."""

    def __init__(self, url):
        self.address = url

    def client(self):
        import redis

        return redis.Redis.from_url(self.address, socket_timeout=5)


def main():
    """Run it; 1 where the account does not balance or a judgement got lost."""
    if missing := redis_is_missing():
        print(f"cannot run: {missing}")
        return 2
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="llmeval-fleet-")))
        if url := os.environ.get("LLMEVAL_JUDGE_QUEUE"):
            broker = RunningRedis(url)
            print("Redis: the one of LLMEVAL_JUDGE_QUEUE")
        else:
            broker = lasting_redis(folder)
            broker.start()
            stack.callback(broker.kill)
            print(f"Redis: started at {broker.address}")
        server = stack.enter_context(JudgeServer(default="slow", delay=0.2))
        return show(broker, server, folder)


def show(broker, server, folder):
    before = account(broker)
    workers = []
    for number in (1, 2):
        env = judging(
            environment(broker.address, folder / f"worker-{number}"), server,
            LLMEVAL_JUDGE_TIMEOUT="8", LLMEVAL_JUDGE_CONCURRENCY="16",
        )  # fmt: skip
        workers.append(start_worker(env, "--name", f"worker-{number}", "--concurrency", "1"))
    envs = [
        environment(broker.address, folder / f"app-{number}", FLUSH="20", RETURNED_SECONDS="150")
        for number in (1, 2)
    ]
    for env in envs:
        Path(env["LLMEVAL_STORE"]).parent.mkdir()
    apps = [
        subprocess.Popen([sys.executable, str(APP), "wait", str(first), str(REQUESTS)], env=env,
                         stdout=subprocess.PIPE, text=True)
        for first, env in ((0, envs[0]), (REQUESTS, envs[1]))
    ]  # fmt: skip
    print(f"two apps hand over {REQUESTS} judgements each; two workers make them")
    until(lambda: account(broker).judged - before.judged >= REQUESTS // 2, "a quarter of them")
    kill_group(workers[0])
    print(f"worker-1 killed after {account(broker).judged - before.judged} verdicts; its messages "
          "come back when the time of their judgements is over")  # fmt: skip
    begun, now = time.monotonic(), account(broker)
    while now.waiting > before.waiting and time.monotonic() - begun < 120:
        time.sleep(0.2)
        now = account(broker)
    said = [json.loads(app.communicate(timeout=200)[0].splitlines()[-1]) for app in apps]
    workers[1].terminate()
    workers[1].wait(30)
    for number, each in enumerate(said, 1):
        print(f"app {number}: {each['fleet']}, judged {each['judged']}, not run {each['not_run']}")
    asked, judged = now.asked - before.asked, now.judged - before.judged
    refused = {
        reason: times - before.refused.get(reason, 0) for reason, times in now.refused.items()
    }
    waiting = now.waiting - before.waiting
    again = max(0, server.calls - judged - sum(refused.values()))
    print(f"the judge's server was called {server.calls} times; {again} calls were under way when "
          "the worker was killed, and were made again")  # fmt: skip
    print(f"account: asked {asked} = judged {judged} + refused {refused or 0} + waiting {waiting}")
    returned = sum(each["fleet"].get("returned", 0) for each in said)
    is_exact = now.is_balanced and waiting == 0 and asked == 2 * REQUESTS == returned
    print("balanced: every judgement has a verdict or a reason" if is_exact else "NOT BALANCED")
    return 0 if is_exact else 1


if __name__ == "__main__":
    sys.exit(main())
