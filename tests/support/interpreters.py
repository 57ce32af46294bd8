"""Find the Pythons of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path


def interpreter(version: str) -> str | None:
    """Return a real interpreter of a version such as ``3.12``, or None when there is none.

    Those of pyenv come first, by their own path: its shims, which lie on the path, may stand for
    another version than their name says.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [str(path) for path in sorted(pyenv.glob(f"versions/{version}.*/bin/python"))]
    on_path = shutil.which(f"python{version}")
    candidates[:0] = [on_path] if on_path else []
    for candidate in reversed(candidates):
        tried = subprocess.run(
            [candidate, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"],
            check=False,
            capture_output=True,
            text=True,
        )
        if tried.stdout.strip() == version:
            return candidate
    return None
