"""Requests that come whether or not the service keeps up, and what they cost its processes."""

import asyncio
import json
import os
import random
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.load.corpus import Texts


TICK = os.sysconf("SC_CLK_TCK")


class Load(NamedTuple):
    """What a client saw of a service."""

    times: list[float]
    """Milliseconds of each request beyond the time of its model, from when it was to begin."""
    failed: int
    own_share: float
    """What the client itself took of a core."""


def run(port, rate, seconds, seed):
    """Send Poisson arrivals for so long, and wait for all answers."""
    begun, used = time.perf_counter(), time.process_time()
    times = asyncio.run(_send(port, rate, seconds, seed))
    own_share = (time.process_time() - used) / (time.perf_counter() - begun)
    answered = sorted(each for each in times if each is not None)
    return Load(answered, len(times) - len(answered), own_share)


async def _send(port, rate, seconds, seed):
    texts, dice = Texts(seed), random.Random(seed)
    passages = texts.passages(50, 200, 300)
    loop, tasks, due = asyncio.get_running_loop(), [], 0.0
    begun = loop.time()
    while (due := due + dice.expovariate(rate)) < seconds:
        body = {"question": texts.question(passages), "seconds": dice.uniform(0.3, 1.0)}
        await asyncio.sleep(begun + due - loop.time())
        tasks.append(asyncio.create_task(_ask(port, body, begun + due)))
    return await asyncio.gather(*tasks)


async def _ask(port, body, intended):
    """Return the milliseconds of one request beyond its model's; None if it failed."""
    data = json.dumps(body).encode()
    head = (
        f"POST /answer HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    try:
        answer = await asyncio.wait_for(_exchange(port, head.encode() + data), 60)
    except (OSError, asyncio.TimeoutError):
        return None
    took = asyncio.get_running_loop().time() - intended - body["seconds"]
    return took * 1e3 if answer.startswith(b"HTTP/1.1 200") else None


async def _exchange(port, request):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return await reader.read()
    finally:
        writer.close()


def processor_seconds(pids):
    """Return what processes and the children that they waited for have used so far."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        total += sum(int(each) for each in fields[11:15])
    return total / TICK
