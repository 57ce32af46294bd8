"""Alarms: ``llmeval watch`` looks at a store again and again, and says when quality drops."""

from __future__ import annotations

from llmeval_sdk.pipeline.plan import Plugin


class WatchPlugin(Plugin):
    """The command ``llmeval watch``."""

    name = "watch"
    settings = {"Alarms of `llmeval watch`": "settings:WatchSettings"}
    commands = {"watch": "command:add"}


plugin = WatchPlugin()
