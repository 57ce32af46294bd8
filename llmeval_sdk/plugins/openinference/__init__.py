"""Scores the spans that other instrumentations make; an instrumented app adds two lines for it."""

from __future__ import annotations

from llmeval_sdk.pipeline.plan import Plugin


class OpenInferencePlugin(Plugin):
    """`otel.EvaluationSpanProcessor`, which an app adds to its provider."""

    name = "openinference"


plugin = OpenInferencePlugin()
