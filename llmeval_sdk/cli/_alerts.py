"""Bounds that a mean over all traffic should keep, for ``llmeval report`` and ``llmeval watch``."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from pathlib import Path

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.store.course import ALPHA, Bound, Course, Event
from llmeval_sdk.store.hours import DAY_NS, Wanted, first_ns, hours
from llmeval_sdk.store.populations import predictor_of
from llmeval_sdk.store.reader import StoreReader


FIRST_LOOK_NS = 30 * DAY_NS
"""How far back the first look at a store goes."""


def alert(text: str) -> Bound:
    """Read ``groundedness<0.9``."""
    parts = re.fullmatch(r"\s*([^<>\s]+)\s*([<>])\s*(-?\d*\.?\d+)\s*", text)
    if parts is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not an alert: expected 'groundedness<0.9'")
    return Bound(parts[1], parts[2], float(parts[3]))


def alerts_of(path: str) -> list[Bound]:
    """Read a file of alerts, one a line; what follows ``#`` is a comment.

    Raises `ConfigurationError` with the line that is none.
    """
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None
    bounds = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        try:
            bounds += [alert(text)] if text else []
        except argparse.ArgumentTypeError as error:
            raise ConfigurationError(f"{path}, line {number}: {error}") from None
    return bounds


def level_of(alerts: int) -> float:
    """Return the evidence that raises an alarm: one wrong alarm in twenty months of all together.

    The 5 % are divided by the alerts (Bonferroni), which holds however they depend on each other.
    """
    return max(alerts, 1) / ALPHA


def begin(reader: StoreReader, bound: Bound, since_ns: int | None, now_ns: int) -> Course:
    """Begin to follow an alert: from ``since_ns``, or the first record of the last 30 days."""
    first = reader.read(lambda connection: first_ns(connection, bound.evaluator))
    start = max(first or 0, now_ns - FIRST_LOOK_NS) if since_ns is None else since_ns
    return Course.begun(bound, start)


def follow(
    reader: StoreReader,
    course: Course,
    until_ns: int,
    level: float,
    *,
    span_name: str | None = None,
    predictor: str | None = None,
) -> list[Event]:
    """Bring the course of an alert up to a moment; return what there is to tell."""
    evaluator = course.bound.evaluator
    wanted = Wanted(evaluator, predictor or predictor_of(evaluator), span_name)

    def read(connection: object) -> list[Event]:
        events: list[Event] = []
        for hour in hours(connection, wanted, course.cursor_ns, until_ns):  # type: ignore[arg-type]
            events += course.follow(hour, level)
        return events

    return reader.read(read)


def courses(
    reader: StoreReader,
    bounds: Iterable[Bound],
    since_ns: int | None,
    now_ns: int,
    *,
    span_name: str | None = None,
    predictor: str | None = None,
) -> list[Course]:
    """Follow alerts from the beginning, for a single look such as ``llmeval report``."""
    followed = [begin(reader, bound, since_ns or 0, now_ns) for bound in bounds]
    for course in followed:
        follow(
            reader, course, now_ns, level_of(len(followed)),
            span_name=span_name, predictor=predictor,
        )  # fmt: skip
    return followed
