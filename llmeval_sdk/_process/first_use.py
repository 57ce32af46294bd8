"""Who sets the SDK up when it is first used.

Tracing is the first to notice that nothing has been configured, and must not know what configures
it. So the package, which knows all rooms, says it here when it is imported.
"""

from __future__ import annotations


def load() -> None:
    """Load the runtime, which installs itself into tracing; the package replaces this function."""
    raise RuntimeError("llmeval_sdk itself has not been imported")
