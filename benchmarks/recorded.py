"""Figures that are kept in ``benchmarks/results``, each file with its command, machine and date."""

import json
import os
import platform
from datetime import datetime, timezone
from pathlib import Path
from typing import Any


RESULTS = Path(__file__).resolve().parent / "results"


def today() -> str:
    return datetime.now(timezone.utc).date().isoformat()


def machine() -> str:
    """Say what the figures were measured on, without naming the host."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} cores, {processor()}, {platform.system()}"


def processor() -> str:
    """Return what the kernel calls the processor, or its architecture."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text("utf-8").splitlines() if about.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return " ".join([platform.machine(), *names[:1]])


def keep(file: Path, command: str, figures: Any) -> None:
    """Write the figures of a command, with where and when they were measured."""
    write(
        file,
        {
            "command": command,
            "date": today(),
            "machine": machine(),
            "python": platform.python_version(),
            "figures": figures,
        },
    )


def write(file: Path, content: Any) -> None:
    """Write a file as it is committed: a value on each line, so that a change of one is seen."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True)
    file.write_text(text + "\n", encoding="utf-8")
