"""The settings of what is recorded, and of its free scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llmeval_sdk.config._row import setting
from llmeval_sdk.config._texts import flag, fraction, limits, names, one_of
from llmeval_sdk.registry import EXPORTERS


@dataclass(frozen=True, kw_only=True)
class RecordingSettings:
    """What is recorded, and which free scores it gets."""

    enabled: bool = setting(True, "LLMEVAL_ENABLED", read=flag, doc="Off leaves plain calls.")
    trace_sample_rate: float = setting(
        1.0, "LLMEVAL_TRACE_SAMPLE_RATE", read=fraction, doc="Share of traces that is recorded."
    )
    exporters: tuple[str, ...] = setting(
        (),
        "LLMEVAL_EXPORTERS",
        read=names,
        doc=f"Where spans and scores go: {', '.join(f'`{name}`' for name in EXPORTERS)}. Default: "
        "those that have an address here, else `local`.",
    )
    evaluators: tuple[str, ...] = setting(
        (),
        "LLMEVAL_EVALUATORS",
        "DD_LLMOBS_EVALUATORS",
        read=names,
        doc="Evaluators to add to the built-in heuristics, by name.",
    )
    heuristics: str = setting(
        "inline",
        "LLMEVAL_HEURISTICS",
        read=one_of("inline", "background", "off"),
        doc="Where the metadata heuristics run: `inline` (on the caller's thread), `background` "
        "(in the worker) or `off`.",
    )
    retrieved_context: str = setting(
        "last",
        "LLMEVAL_RETRIEVED_CONTEXT",
        read=one_of("last", "all"),
        doc="Judge the documents of the last retrieval of a request, or of all of them.",
    )
    retrieval_limits: Mapping[str, int] | None = setting(
        None,
        "LLMEVAL_RETRIEVAL_LIMITS",
        read=limits,
        doc='The limits of your retriever by method, `{"bm25": 20, "knn": 20}`.',
    )
    service_name: str | None = setting(
        None,
        "OTEL_SERVICE_NAME",
        "DD_SERVICE",
        doc="Name of the app in every backend; OTLP falls back on the app's own provider.",
        in_experiment="{name}",
    )
