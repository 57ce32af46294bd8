"""One process of one peer: trace some calls, print what they cost, end as any app ends.

    python -m benchmarks.peers.child ADAPTER URL CALL COUNT PACE [--flush]

Runs in the peer's environment, so it needs nothing but the standard library and the adapter.
"""

import json
import os
import resource
import sys
import time
from importlib import import_module

from benchmarks.peers import workload


WARM_UP = 50


def main(adapter, url, call, count, pace, *, flush):
    module = import_module(f"benchmarks.peers.{adapter}")
    os.environ.update(module.environment(url))  # noqa: TID251 - the peer's settings
    peer = module.Peer(url)
    traced = peer.scored if call == "scored" else peer.traced
    text = workload.large if call == "large" else workload.small
    for number in range(WARM_UP):
        traced(text(number))
        time.sleep(pace)
    questions = [text(number) for number in range(WARM_UP, WARM_UP + count)]
    times = []
    cpu, clock = time.process_time(), time.perf_counter_ns
    for question in questions:
        begun = clock()
        traced(question)
        times.append(clock() - begun)
        time.sleep(pace)
    if flush:
        peer.flush()
    times.sort()
    return {
        "p50": times[count // 2] / 1e3,
        "p99": times[count * 99 // 100] / 1e3,
        "max": times[-1] / 1e3,
        "cpu": (time.process_time() - cpu) / count * 1e6,
        "created": count + WARM_UP,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024,
    }


if __name__ == "__main__":
    name, url, call, count, pace, *flush = sys.argv[1:]
    found = main(name, url, call, int(count), float(pace), flush=bool(flush))
    print(json.dumps(found), flush=True)
