"""LLM judges: one small file each. They know the `LLM` protocol and no client.

Names are loaded when first used: whoever asks for the price of a model loads no judge.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from llmeval_sdk.judges.base import BaseJudge
    from llmeval_sdk.judges.context_recall import ContextRecall
    from llmeval_sdk.judges.custom import LLMJudge, judge
    from llmeval_sdk.judges.function import FunctionJudge
    from llmeval_sdk.judges.prompt import Example

__all__ = ["BaseJudge", "ContextRecall", "Example", "FunctionJudge", "LLMJudge", "judge"]

_HOMES = {
    "BaseJudge": "base",
    "ContextRecall": "context_recall",
    "Example": "prompt",
    "FunctionJudge": "function",
    "LLMJudge": "custom",
    "judge": "custom",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
