"""Traces the calls of model clients without a decorator.

    llmeval.instrument("openai", "anthropic")     # every client of these libraries
    client = llmeval.wrap_openai(OpenAI())        # this client only, and nothing is patched

Both use the instrumentations of OpenInference. Their spans go to a provider of our own, where they
become spans of ours: scored, priced and sent like those of the decorators.
"""

from __future__ import annotations

from llmeval_sdk.instrumentation._client import wrap_openai
from llmeval_sdk.instrumentation._patching import connect, instrument, uninstrument


__all__ = ["connect", "instrument", "uninstrument", "wrap_openai"]
