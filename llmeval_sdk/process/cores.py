"""How much of the machine this process may use: by its affinity, and by the limits of its group."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from llmeval_sdk.process.reading import read_file


MAX_BYTES = 1 << 14
"""How much of a file of the kernel is read."""
MAX_DEPTH = 32
"""How many of the groups around a process are looked at."""
_GROUPS, _MEMBER_OF = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def usable_cores(groups: Path = _GROUPS, member_of: Path = _MEMBER_OF) -> float:
    """Return how many cores this process may keep busy; it may be less than one.

    It reads some files of the kernel, which takes a fraction of a millisecond.
    """
    try:
        cores = float(len(os.sched_getaffinity(0)))
    except (AttributeError, OSError):  # not on macOS and Windows
        cores = float(os.cpu_count() or 1)
    return min([cores, *_limits(groups, member_of)])


def _limits(groups: Path, member_of: Path) -> Iterator[float]:
    """Yield the limits of all groups around this process, of both versions of control groups."""
    for line in _read(member_of).splitlines():
        _, _, named = line.partition(":")
        controllers, _, path = named.partition(":")
        if not controllers:
            yield from _limits_at(groups, path, _limit_2)
        elif "cpu" in controllers.split(","):
            for folder in ("cpu", controllers):
                yield from _limits_at(groups / folder, path, _limit_1)


def _limits_at(top: Path, path: str, limit_of: Callable[[Path], float | None]) -> Iterator[float]:
    """Yield the limits of a group and of those around it; in a container the top is its own."""
    steps = [step for step in path.split("/") if step not in ("", "..")][:MAX_DEPTH]
    for depth in range(len(steps) + 1):
        limit = limit_of(top.joinpath(*steps[:depth]))
        if limit is not None:
            yield limit


def _limit_2(group: Path) -> float | None:
    quota, _, period = _read(group / "cpu.max").partition(" ")
    return _cores(quota, period)


def _limit_1(group: Path) -> float | None:
    return _cores(_read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us"))


def _cores(quota: str, period: str) -> float | None:
    with suppress(ValueError, ZeroDivisionError):
        cores = int(quota) / int(period)
        return cores if cores > 0 else None
    return None


def _read(path: Path) -> str:
    with suppress(OSError):
        return read_file(path, most=MAX_BYTES).decode("utf-8", "replace")
    return ""
