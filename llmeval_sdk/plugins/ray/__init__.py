"""Evaluates on Ray Data, on one machine or on many, with the report of the local engine."""

from __future__ import annotations

from llmeval_sdk.pipeline.plan import Plugin


class RayPlugin(Plugin):
    """``evaluate(engine="ray")``."""

    name = "ray"
    requires = ("shared",)
    engines = {"ray": "_run:RayRun"}


plugin = RayPlugin()
