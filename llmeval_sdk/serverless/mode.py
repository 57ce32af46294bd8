"""What ``LLMEVAL_MODE=serverless`` changes in a pipeline."""

from __future__ import annotations

from llmeval_sdk._process.threads import DaemonLoop
from llmeval_sdk.config import Settings
from llmeval_sdk.config.serverless import ServerlessSettings
from llmeval_sdk.pipeline import JudgesLoop, Pipeline
from llmeval_sdk.serverless._loop import ThawingLoop


def adapt(pipeline: Pipeline, settings: Settings) -> None:
    """Have a pipeline send at once and then rest, if its process may be frozen at any moment."""
    is_serverless = settings.of(ServerlessSettings).mode == "serverless"
    JudgesLoop.new_loop = ThawingLoop if is_serverless else DaemonLoop
    if is_serverless:
        pipeline.expect_freezing()
