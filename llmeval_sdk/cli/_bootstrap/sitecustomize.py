# ruff: noqa: INP001, D100 - Python imports it by this name from the folder that `llmeval run` names
import os
import sys


def _next_sitecustomize() -> None:
    """Run the one that this file hides, such as ddtrace-run's, as Python would have."""
    here = os.path.realpath(os.path.dirname(__file__))  # noqa: PTH120 - before anything is loaded
    hidden = [path for path in sys.path if os.path.realpath(path or ".") == here]
    for path in hidden:
        sys.path.remove(path)
    mine = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        if mine is not None:
            sys.modules.setdefault("sitecustomize", mine)


def _set_up() -> None:
    try:
        import llmeval_sdk.auto  # noqa: F401
    except Exception as error:
        sys.stderr.write(f"llmeval run: not set up: {type(error).__name__}: {error}\n")


try:
    _next_sitecustomize()
finally:
    _set_up()
