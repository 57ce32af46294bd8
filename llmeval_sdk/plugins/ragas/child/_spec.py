"""What a child runs, and where the processes that share it meet."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


PACKAGE = Path(__file__).resolve().parents[3]
_LONGEST_ADDRESS = 100
"""Bytes; the address of a local socket may have 103 on the strictest system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """Plain data that says what to run; equal specs on one host mean one process."""

    handler: str
    """``module:attribute`` of this package: called once with ``options`` in the child, it returns
    what answers jobs and a mapping that says what is there."""
    python: str
    """The interpreter to run."""
    paths: tuple[str, ...] = ()
    """Folders for the end of the child's ``sys.path``."""
    options: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables to add."""
    shared_by: str = ""
    """Processes that name the same thing (the store's folder) share one child."""
    idle_seconds: float = 300.0
    memory_bytes: int = 1 << 30
    """Memory the child may take beyond what it has when it is ready; 0 is no limit."""

    def text(self) -> str:
        """Return all of it as JSON: what the child is given and what tells two apart."""
        return json.dumps({**asdict(self), "package": str(PACKAGE)}, sort_keys=True)

    def address(self) -> Path:
        """Return the socket's path, in a folder that only this user may enter.

        Raises OSError where no such folder can be had.
        """
        name = hashlib.sha256(self.text().encode()).hexdigest()[:20]
        parent = tempfile.gettempdir()
        if len(os.fsencode(parent)) > _LONGEST_ADDRESS - 45:
            parent = "/tmp"  # noqa: S108 - checked below
        folder = Path(parent) / f"llmeval-{os.getuid()}"
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            found = folder.lstat()
            if found.st_uid != os.getuid() or (found.st_mode & 0o40077) != 0o40000:
                raise PermissionError(f"{folder} is not a private folder of this user") from None
        return folder / f"{name}.sock"


def interpreter() -> str:
    """Return the running interpreter's file, also where a server has it embedded."""
    if Path(sys.executable or "").name.startswith(("python", "pypy")):
        return sys.executable
    return str(Path(sysconfig.get_path("scripts")) / "python3")
