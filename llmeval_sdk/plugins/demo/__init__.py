"""The demo app: field extraction over the documents of the installed distributions."""

from __future__ import annotations

from llmeval_sdk.pipeline.plan import Plugin


class DemoPlugin(Plugin):
    """The command ``llmeval demo``."""

    name = "demo"
    commands = {"demo": "command:add"}


plugin = DemoPlugin()
