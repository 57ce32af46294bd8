"""Files of the app that Python loads in the place of its own modules, such as a ``calendar.py``.

They are found where set-up has failed, since the exception names the module that missed something,
and seldom the file that it got instead.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator


_INSTALLED = ("site-packages", "dist-packages")
"""Folders of packages; some replace a module on purpose, as setuptools does ``distutils``."""


def shadowed() -> Iterator[tuple[str, str]]:
    """Yield each module of Python's own that was loaded from elsewhere, with that file.

    A frozen app has all of them in a place of its own.
    """
    if getattr(sys, "frozen", False):
        return
    own = os.path.dirname(os.__file__)  # noqa: PTH120 - as `sys.path` has it
    for name in sorted(sys.stdlib_module_names & sys.modules.keys()):
        file = getattr(sys.modules[name], "__file__", None)
        if not isinstance(file, str) or file.startswith(own) or not file.endswith(".py"):
            continue
        if not any(folder in file for folder in _INSTALLED):
            yield name, file
