"""Tools for tests of apps that use the package.

``capture()`` shows what a block traced and scored; `FakeLLM` answers as a judge model without a
network; `judge_server.JudgeServer` answers over real HTTP. Names are loaded when first used, since
pytest imports this package for its plugin in every run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from llmeval_sdk.testing._capture import Captured, capture, fixed_ids
    from llmeval_sdk.testing._fake_llm import FakeLLM

__all__ = ["Captured", "FakeLLM", "capture", "fixed_ids"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "_fake_llm" if name == "FakeLLM" else "_capture"
    return getattr(import_module(f"{__name__}.{home}"), name)
