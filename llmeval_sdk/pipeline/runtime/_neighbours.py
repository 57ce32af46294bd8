"""Connects tracing with the other tracing libraries of this process, so that spans nest."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from llmeval_sdk.model.protocols import BaseExporter, ContextBridge, Services
from llmeval_sdk.process.shield import shield
from llmeval_sdk.tracing.internals import Link, state


def meet(exporters: Sequence[BaseExporter], services: Services) -> None:
    """Connect the exporters of a new configuration, and tracing with the libraries behind them."""
    for exporter in exporters:
        with shield(f"exporter {exporter.name}", calls_out=True):
            exporter.connect(services)
    bridges = tuple(sink.bridge for sink in exporters if sink.bridge is not None)
    state.neighbours = bridges
    state.ambient_parent = partial(_parent_in, bridges) if bridges else None


def _parent_in(bridges: tuple[ContextBridge, ...]) -> Any:
    """Return the parent of a new root: a span of ours, a Link to another library's, or ``None``."""
    for bridge in bridges:
        parent = bridge.parent()
        if parent is not None:
            return Link(*parent) if type(parent) is tuple else parent
    return None
