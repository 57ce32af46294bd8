"""What ``LLMEVAL_MODE=serverless`` changes in a pipeline."""

from __future__ import annotations

from llmeval_sdk.config import Settings
from llmeval_sdk.config.serverless import ServerlessSettings
from llmeval_sdk.pipeline import JudgesLoop, Pipeline
from llmeval_sdk.serverless._loop import ThawingLoop


def adapt(pipeline: Pipeline, settings: Settings) -> None:
    """Have a pipeline send at once and then rest, if its process may be frozen at any moment."""
    if settings.of(ServerlessSettings).mode == "serverless":
        pipeline.expect_freezing()
        JudgesLoop.new_loop = ThawingLoop
