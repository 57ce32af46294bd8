"""The Ray that a run uses: the one that is there, or one that is started for it on this machine."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from llmeval_sdk.errors import ConfigurationError, missing_extra


STORE_BYTES = 512 << 20
"""Memory for blocks on their way to workers, of a Ray that is started here."""


class Cluster(NamedTuple):
    """Where a run takes place."""

    ray: Any
    workers: int
    machines: int
    processors: float
    """What a worker takes of Ray's processors, so that something is left for what reads."""


def import_ray() -> Any:
    """Import Ray, which then reports nothing of its use to anybody.

    Raises:
        MissingExtraError: it is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # noqa: TID251 - it is Ray that reads it
    try:
        import ray
        import ray.data
    except ImportError:
        raise missing_extra("engine='ray'", "ray", "ray") from None
    return ray


@contextmanager
def connected(ray: Any, workers: int | None) -> Iterator[Cluster]:
    """Use the Ray of this process, else that of ``RAY_ADDRESS``, else start one meanwhile.

    Raises:
        ConfigurationError: it cannot be reached, or has too few processors for the workers.
    """
    started = not ray.is_initialized()
    if started:
        _start(ray, workers)
    try:
        processors = int(ray.cluster_resources().get("CPU", 0))
        most = max(1, processors - 1)  # one is left for what reads the data
        if workers is not None and workers > most:
            raise ConfigurationError(
                f"workers={workers} (--workers): Ray has {processors} processors, of which one "
                f"reads; pass at most {most}"
            )
        machines = sum(bool(node["Alive"]) for node in ray.nodes())
        yield Cluster(ray, workers or most, machines, 1.0 if processors > 1 else 0.5)
    finally:
        if started:
            ray.shutdown()


def _start(ray: Any, workers: int | None) -> None:
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"ray\.")  # they are about code of ours and of Ray
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # noqa: TID251 - Ray's own
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    try:
        if os.environ.get("RAY_ADDRESS"):  # noqa: TID251 - Ray's own
            ray.init(**quiet)
            return
        ray.init(
            address="local",
            num_cpus=(workers or os.cpu_count() or 1) + 1,  # workers, and what reads
            include_dashboard=False,
            object_store_memory=STORE_BYTES,
            _node_ip_address="127.0.0.1",
            **quiet,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigurationError(f"Ray cannot be used: {error}") from None
