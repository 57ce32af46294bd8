"""Records that stand in the spool, on their way through the pipeline."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, NamedTuple

from llmeval_sdk.pipeline._delivery import Barrier
from llmeval_sdk.spool import Place, SpoolFile


class Kept(NamedTuple):
    """A record that also stands in the spool, or whose absence there the file counts."""

    item: Any
    file: SpoolFile
    place: Place
    """Empty when no slot was free."""
    adopted: bool = False


class Open(NamedTuple):
    """A record that is handed on, and what has to happen before it is dealt with."""

    kept: Kept
    judgements: tuple[Future[None], ...]
    missed: int


class OpenBatch(NamedTuple):
    records: list[Open]
    barriers: list[Barrier]
