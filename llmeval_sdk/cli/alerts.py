"""Bounds that a mean over all traffic should keep, for ``llmeval report`` and ``llmeval watch``."""

from __future__ import annotations

import argparse
import re
import sqlite3
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError, nearest
from llmeval_sdk.store.alert_state import ALPHA, AlertCourse, Bound, Event
from llmeval_sdk.store.hours import DAY_NS, Wanted, arrived, first_ns, hours, late, went_on
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.thresholds import METRICS
from llmeval_sdk.store.views import names_in


FIRST_LOOK_NS = 30 * DAY_NS
"""How far back the first look at a store goes."""


def alert(text: str) -> Bound:
    """Read one bound from the command line, such as ``groundedness<0.9``."""
    parts = re.fullmatch(r"\s*([^<>\s]+)\s*([<>])\s*(-?\d*\.?\d+)\s*", text)
    if parts is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not an alert: expected 'groundedness<0.9'")
    field, dot, _ = parts[1].partition(".")
    if dot and parts[1] not in METRICS and any(name.startswith(f"{field}.") for name in METRICS):
        raise argparse.ArgumentTypeError(
            f"{parts[1]!r} is not measured: {nearest(parts[1], METRICS)}"
        )
    return Bound(parts[1], parts[2], float(parts[3]))


def alerts_of(path: str) -> list[Bound]:
    """Read a file with one alert per line; what follows ``#`` is a comment.

    Raises `ConfigurationError`, which names the line, if a line is not an alert.
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
    """Return the evidence that raises an alarm, so that at most 5 % of months hold a false one.

    The 5 % are divided by the number of alerts (Bonferroni), which holds however they depend on
    each other.
    """
    return max(alerts, 1) / ALPHA


def begin(reader: StoreReader, bound: Bound, since_ns: int | None, now_ns: int) -> AlertCourse:
    """Begin to follow an alert: from ``since_ns``, or the first record of the last 30 days."""
    if since_ns is None:
        first = reader.read(lambda connection: first_ns(connection, bound.evaluator))
        since_ns = max(first or 0, now_ns - FIRST_LOOK_NS)
    return AlertCourse.begun(bound, since_ns)


def follow(
    reader: StoreReader,
    course: AlertCourse,
    until_ns: int,
    level: float,
    *,
    span_name: str | None = None,
    predictor: str | None = None,
) -> list[Event]:
    """Bring the course of an alert up to a moment; return what there is to tell."""
    evaluator = course.bound.evaluator
    wanted = Wanted(evaluator, predictor or registry.predictor_of(evaluator), span_name)

    def read(connection: sqlite3.Connection) -> list[Event]:
        events: list[Event] = []
        now = arrived(connection)
        if course.arrived is not None:
            before = late(
                connection, wanted, course.cursor_ns, course.arrived, set(course.left_out)
            )
            events += course.follow_late(*before, level)
        for hour in hours(connection, wanted, course.cursor_ns, until_ns):
            events += course.follow(hour, level)
        course.arrived = now
        last = course.silence.last_verdict_ns
        course.silence.went_on = bool(
            last and until_ns - last > DAY_NS and went_on(connection, wanted, last)
        )
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
) -> list[AlertCourse]:
    """Follow alerts from the beginning. That is for a single look, such as ``llmeval report``."""
    followed = [begin(reader, bound, since_ns or 0, now_ns) for bound in bounds]
    for course in followed:
        follow(
            reader, course, now_ns, level_of(len(followed)),
            span_name=span_name, predictor=predictor,
        )  # fmt: skip
        if not course.judged:
            name = course.bound.evaluator
            course.problem = course.problem or reader.read(partial(unknown_name, name))
    return followed


def unknown_name(name: str, connection: sqlite3.Connection) -> str:
    """Say that no evaluator has this name; empty if one in the store or of this SDK has it.

    It is empty for a store without evaluations too, whose app may have an evaluator of its own.
    """
    stored = {*names_in(connection, "evaluations", "name")}
    stored.update(names_in(connection, "not_run", "evaluator"))
    if not stored or name in stored or registry.known(name) is not None:
        return ""
    hint = nearest(name, {*METRICS, *stored, *registry.judges()})
    return f"nothing in the store is named {name!r}: {hint}"
