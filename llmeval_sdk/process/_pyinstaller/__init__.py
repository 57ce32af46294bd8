"""Tells PyInstaller what of this package an app loads by name, so that a frozen app has it.

PyInstaller finds this by the entry point ``pyinstaller40``; nothing else imports it.
"""

from __future__ import annotations

from pathlib import Path


def hook_folders() -> list[str]:
    """Return the folder of the hook beside this file."""
    return [str(Path(__file__).parent)]
