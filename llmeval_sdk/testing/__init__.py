"""Tools for tests of apps that use the package.

``capture()`` shows what a block traced and scored; `FakeLLM` answers as a judge model without a
network; `judge_server.JudgeServer` answers over real HTTP.
"""

from llmeval_sdk.testing._capture import Captured, capture, fixed_ids
from llmeval_sdk.testing._fake_llm import FakeLLM


__all__ = ["Captured", "FakeLLM", "capture", "fixed_ids"]
