"""What ``llmeval watch`` remembers, in a small file beside the store that all processes share."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.store.alert_state import AlertCourse, Bound
from llmeval_sdk.store.state import HostLedger


VERSION = 1
LOCK_SECONDS = 60.0
"""How long one process waits while another looks at the same store."""
LEASE_NS = 600_000_000_000
"""How long a message belongs to the process that took it: after that, another one may send it."""
KEPT_NS = 7 * 86_400_000_000_000
"""How long delivery of a message is tried, counted from when it was put into the outbox."""

T = TypeVar("T")


@dataclass(slots=True)
class AlertMessage:
    """Something to tell people about an alert, kept in the outbox until it has been told."""

    id: str
    alert: str
    kind: str
    at_ns: int
    """When it happened, by the times of the records."""
    text: str
    facts: dict[str, Any]
    taken_ns: int = 0
    """When a process took it to send; 0 while none does."""
    put_ns: int = 0
    """When it was put into the outbox; 0 stands for when it happened."""

    def as_plain(self) -> dict[str, Any]:
        """Return what people and programs are told."""
        return {"id": self.id, "kind": self.kind, "text": self.text, **self.facts}


@dataclass(slots=True)
class PlainAlarm:
    """How a plain bound on the traffic stood at the last look."""

    since_ns: int = 0
    """When the look was that raised the alarm; 0 while none is in force."""
    silenced_until_ns: int = 0


@dataclass(slots=True)
class WatchState:
    """All courses, by alert, and the messages that are still to be delivered."""

    courses: dict[str, AlertCourse] = field(default_factory=dict)
    outbox: list[AlertMessage] = field(default_factory=list)
    plain: dict[str, PlainAlarm] = field(default_factory=dict)
    """Plain bounds on the traffic, by alert."""

    def expire(self, now_ns: int) -> list[AlertMessage]:
        """Take out of the outbox, and return, what could not be told for seven days."""
        expired = [m for m in self.outbox if now_ns - (m.put_ns or m.at_ns) >= KEPT_NS]
        self.outbox = [message for message in self.outbox if message not in expired]
        return expired

    def dump(self) -> str:
        """Write it as JSON."""
        courses = {name: course.as_plain() for name, course in self.courses.items()}
        outbox = [
            {name: getattr(message, name) for name in AlertMessage.__slots__}
            for message in self.outbox
        ]
        plain = {name: asdict(alarm) for name, alarm in self.plain.items()}
        state = {"version": VERSION, "courses": courses, "outbox": outbox, "plain": plain}
        return json.dumps(state)

    @classmethod
    def load(cls, text: str, bounds: Sequence[Bound]) -> WatchState:
        """Read what `dump` wrote; the state of alerts not in ``bounds`` is kept as it is.

        Raises `ConfigurationError` for a file of a newer release, or one that cannot be read.
        """
        if not text:
            return cls()
        try:
            plain = json.loads(text)
            if int(plain["version"]) > VERSION:
                return _newer(plain["version"])
            known = {str(bound): bound for bound in bounds}
            courses = {
                name: AlertCourse.from_plain(known.get(name) or _bound_of(name), course)
                for name, course in plain["courses"].items()
            }
            alarms = {name: PlainAlarm(**alarm) for name, alarm in plain.get("plain", {}).items()}
            outbox = [AlertMessage(**message) for message in plain["outbox"]]
            return cls(courses, outbox, alarms)
        except ConfigurationError:
            raise
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise ConfigurationError(
                "the file beside the store in which `llmeval watch` keeps its counts cannot be"
                f" read ({type(error).__name__}): remove it to begin anew"
            ) from None


def _newer(version: object) -> WatchState:
    raise ConfigurationError(
        "the file beside the store in which `llmeval watch` keeps its counts was written by a newer"
        f" release (version {version}, this one knows {VERSION}): upgrade llmeval-inprocess"
    )


def _bound_of(name: str) -> Bound:
    """Read an alert that was written by `Bound.__str__`."""
    evaluator, sign, value = name.partition("<") if "<" in name else name.partition(">")
    return Bound(evaluator, sign, float(value))


class StateFile:
    """The file beside a store, changed under a lock."""

    def __init__(self, store: Path) -> None:
        self.path = store.with_suffix(".watch")
        self._ledger = HostLedger(self.path, timeout=LOCK_SECONDS)

    def change(self, bounds: Sequence[Bound], work: Callable[[WatchState], T]) -> T:
        """Let ``work`` change the state while no other process does; return what it returns.

        Raises `ConfigurationError` if the file cannot be written or read.
        """

        def update(text: str) -> tuple[str, T]:
            state = WatchState.load(text, bounds)
            result = work(state)
            return state.dump(), result

        try:
            result = self._ledger.update(update)
        except OSError as error:
            raise ConfigurationError(f"{self.path} cannot be used: {error.strerror}") from None
        except sqlite3.Error as error:
            raise ConfigurationError(f"{self.path} cannot be used: {error}") from None
        if not self._ledger.shared:
            raise ConfigurationError(
                f"{self.path} cannot be written, and without it every look would report the same"
                " alarms again"
            )
        return result

    def close(self) -> None:
        """Close the file."""
        self._ledger.close()
