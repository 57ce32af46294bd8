"""Replaces small files as a whole, so that a reader never sees half of one."""

from __future__ import annotations

import os
from pathlib import Path

from llmeval_sdk._private import check_file, make_file, make_folder


def replace_text(path: Path, text: str) -> None:
    """Replace a file's content atomically, readable by its owner alone (mode 0600).

    Raises:
        OSError: The file cannot be written, or another user could have made or changed it.
    """
    make_folder(path.parent)
    check_file(path)
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        beside.unlink(missing_ok=True)
        make_file(beside)
        beside.write_text(text, "utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
