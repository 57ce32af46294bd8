"""Run as a script by the child's interpreter: loads this package by its path, then serves.

Of the app's folders it sees those that it was told, at the end of its path.
"""

from __future__ import annotations

import importlib.util
import json
import sys


def main(text: str) -> int:
    """Load the package and serve what ``text`` says; returns the exit status."""
    job = json.loads(text)
    sys.path.extend(path for path in job["paths"] if path not in sys.path)
    package = job["package"]
    spec = importlib.util.spec_from_file_location(
        "llmeval_sdk", f"{package}/__init__.py", submodule_search_locations=[package]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["llmeval_sdk"] = module
    spec.loader.exec_module(module)
    status: int = importlib.import_module("llmeval_sdk.plugins.ragas._serve").serve(job)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
