"""The file of learned weights: small, versioned, written whole, and believed only if it is sound.

It is JSON beside the store. One process writes it by renaming a finished file into place, and the
others read it when it has changed.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from llmeval_sdk.plugins.learning._course import LearningCourse
from llmeval_sdk.process import private


KIND, VERSION = "llmeval learned weights", 1
MOST_BYTES = 1 << 20
MOST_GROUPS = 20
"""Span names of one score that have weights of their own."""

Courses = dict[str, dict[str, LearningCourse]]
"""The courses of each part (a score and a language) by span name; ``""`` stands for all."""


class UnusableError(Exception):
    """The file is ignored.

    ``reason`` is ``untrusted``, ``too_large``, ``unreadable``, ``foreign`` or ``other_version``.
    """

    def __init__(self, reason: str, words: str) -> None:
        super().__init__(words)
        self.reason = reason


def stamp(path: Path) -> tuple[int, ...] | None:
    """Return what changes when a file is replaced; ``None`` where there is none."""
    try:
        about = path.lstat()
    except OSError:
        return None
    return (about.st_ino, about.st_mtime_ns, about.st_size)


def read(path: Path) -> dict[str, Any]:
    """Read a file's parts as they stand there; `courses_of` reads one of them.

    Raises:
        UnusableError: it cannot be believed. A file that is not there has no parts.
    """
    try:
        about = path.lstat()
        if not stat.S_ISREG(about.st_mode):
            raise UnusableError("untrusted", "it is no plain file")
        private.check_file(path, reading=True)
        if about.st_size > MOST_BYTES:
            raise UnusableError("too_large", f"it has more than {MOST_BYTES:,} bytes")
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UnusableError("untrusted", error.strerror or str(error)) from None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise UnusableError("unreadable", "it is no JSON") from None
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise UnusableError("foreign", "it was not written by llmeval")
    if data.get("version") != VERSION:
        raise UnusableError("other_version", "it was written by another release")
    parts = data.get("parts")
    if not isinstance(parts, dict):
        raise UnusableError("unreadable", "it has no parts")
    return parts


def courses_of(part: Any, features: str, width: int) -> dict[str, LearningCourse]:
    """Read the courses of one part.

    Args:
        part: What stands in the file.
        features: Which features weights have to be for.
        width: How many those are.

    Raises:
        UnusableError: it is damaged, or for other features (``other_features``).
    """
    if not isinstance(part, Mapping) or not isinstance(part.get("groups"), dict):
        raise UnusableError("unreadable", "it has no groups")
    if part.get("features") != features:
        raise UnusableError(
            "other_features", "its weights are for other features than this version's"
        )
    groups = part["groups"]
    if len(groups) > MOST_GROUPS + 1:
        raise UnusableError("unreadable", "it has too many groups")
    try:
        return {name: LearningCourse.from_json(course, width) for name, course in groups.items()}
    except (ValueError, TypeError, KeyError, OverflowError):
        raise UnusableError("unreadable", "its weights are damaged") from None


def write(
    path: Path, parts: Mapping[str, tuple[str, Mapping[str, LearningCourse]]], now: float
) -> None:
    """Replace the file. ``parts`` holds which features each part has, and its courses.

    Raises:
        OSError: it cannot be written, or others could change what stands there.
    """
    data = {
        "kind": KIND,
        "version": VERSION,
        "written": now,
        "parts": {
            name: {
                "features": features,
                "groups": {group: course.to_json() for group, course in courses.items()},
            }
            for name, (features, courses) in parts.items()
        },
    }
    private.make_folder(path.parent)
    private.check_folder(path.parent.lstat(), shared=True)
    private.check_file(path)
    made = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        private.make_file(made)
        with made.open("wb") as file:
            file.write(json.dumps(data, allow_nan=False).encode())
            file.flush()
            os.fsync(file.fileno())
        made.replace(path)
    except BaseException:
        with suppress(OSError):
            made.unlink()
        raise
