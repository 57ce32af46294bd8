"""How the SDK behaves in the process of the app: threads, forks, exits, exceptions and counters.

``shield`` keeps our exceptions away from the app and counts, ``threads`` has our threads and event
loops and runs code of the app with a deadline, ``loading``, ``forks`` and ``exits`` handle how
processes begin and end. Nothing here knows spans or evaluators.
"""

from __future__ import annotations


def load_runtime() -> None:
    """Load the runtime, which then installs itself into tracing.

    The first span may come before anything has configured the SDK. Tracing then needs the runtime,
    which stands above it and which it must not import. So the package replaces this function when
    it is imported.
    """
    raise RuntimeError("llmeval_sdk itself has not been imported")
