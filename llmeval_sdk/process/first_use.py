"""How tracing reaches the runtime without importing it.

The first span may come before anything has configured the SDK. Tracing then needs the runtime,
which stands above it and which it must not import. So the package replaces `load` when it is
imported.
"""

from __future__ import annotations


def load() -> None:
    """Load the runtime, which then installs itself into tracing."""
    raise RuntimeError("llmeval_sdk itself has not been imported")
