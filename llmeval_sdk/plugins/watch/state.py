"""What ``llmeval watch`` remembers: one text in the file of state beside a store."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import DAY_NS
from llmeval_sdk.plugins.watch.delivery import AlertMessage
from llmeval_sdk.store.alert_state import AlertState, Bound
from llmeval_sdk.store.files import Unusable
from llmeval_sdk.store.state import SharedText, StateFile, state_path
from llmeval_sdk.text.terminal import printable


VERSION = 2
MAX_TRIES = 20
"""How often a look begins anew where another process looked at the same store meanwhile."""
LEASE_NS = 600_000_000_000
"""How long a message belongs to the process that took it: after that, another one may send it."""
KEPT_NS = 7 * DAY_NS
"""How long delivery of a message is tried, counted from when it was put into the outbox."""

T = TypeVar("T")


@dataclass(slots=True)
class PlainAlarm:
    """How a plain bound on the traffic stood at the last look."""

    since_ns: int = 0
    """When the look was that raised the alarm; 0 while none is in force."""
    silenced_until_ns: int = 0
    group: str | None = None
    """The group that it is about; ``None`` for all requests of its bound."""
    group_of: str = ""
    """The bound whose group it is about; empty where it is about all requests."""

    def resolve(self) -> None:
        """End the alarm."""
        self.since_ns = 0

    def is_idle(self, now_ns: int) -> bool:
        """Say whether nothing has to be remembered of it."""
        return not self.since_ns and self.silenced_until_ns <= now_ns


@dataclass(slots=True)
class WatchState:
    """Alerts and alarms by name, and the messages that are still to be delivered."""

    alerts: dict[str, AlertState] = field(default_factory=dict)
    outbox: list[AlertMessage] = field(default_factory=list)
    plain: dict[str, PlainAlarm] = field(default_factory=dict)
    """Plain bounds on the traffic, by alert."""

    def expire(self, now_ns: int) -> list[AlertMessage]:
        """Take out of the outbox, and return, what could not be told for seven days."""
        expired = [m for m in self.outbox if now_ns - m.put_ns >= KEPT_NS]
        self.outbox = [message for message in self.outbox if message not in expired]
        return expired

    def dump(self) -> str:
        """Write it as JSON."""
        alerts = {name: alert.as_plain() for name, alert in self.alerts.items()}
        outbox = [
            {name: getattr(message, name) for name in AlertMessage.__slots__}
            for message in self.outbox
        ]
        plain = {name: asdict(alarm) for name, alarm in self.plain.items()}
        state = {"version": VERSION, "alerts": alerts, "outbox": outbox, "plain": plain}
        return json.dumps(state)

    @classmethod
    def load(cls, text: str) -> WatchState:
        """Read what `dump` wrote.

        What cannot be read is said and begun anew. Raises `ConfigurationError` for what a newer
        release wrote.
        """
        if not text:
            return cls()
        try:
            plain = json.loads(text)
            if (version := int(plain["version"])) <= VERSION:
                return cls._from_plain(plain)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            problem = f"what was counted so far cannot be read ({type(error).__name__})"
            warn(f"{problem}: the counts begin anew")
            return cls()
        raise ConfigurationError(
            "what `llmeval watch` has counted was written by a newer release (version"
            f" {version}, this one knows {VERSION}): upgrade llmeval-inprocess"
        )

    def of_bound(self, bound: Bound) -> list[AlertState]:
        """Return the alert of a bound, or those of its groups."""
        return [alert for alert in self.alerts.values() if alert.bound.whole == bound]

    def plain_of(self, bound: Bound) -> dict[str, PlainAlarm]:
        """Return the plain alarm of a bound, or those of its groups, by alert."""
        name = str(bound)
        return {
            alert: alarm for alert, alarm in self.plain.items() if name in (alert, alarm.group_of)
        }

    @classmethod
    def _from_plain(cls, plain: Mapping[str, Any]) -> WatchState:
        alerts = plain["alerts"]
        for name, alert in alerts.items():
            if "bound" not in alert:
                alert["bound"] = _bound_of(name).as_plain()
        return cls(
            {name: AlertState.from_plain(alert) for name, alert in alerts.items()},
            [AlertMessage(**message) for message in plain["outbox"]],
            {name: PlainAlarm(**alarm) for name, alarm in plain["plain"].items()},
        )


def _bound_of(name: str) -> Bound:
    """Read the bound of an alert that version 1 wrote, which has nothing but its name."""
    evaluator, sign, value = name.partition("<") if "<" in name else name.partition(">")
    return Bound(evaluator, sign, float(value))


class WatchStateText:
    """The state of ``llmeval watch`` in the file beside a store, which all processes share."""

    def __init__(self, store: Path) -> None:
        self._path = state_path(store)
        self._text = SharedText(StateFile(self._path, timeout=10.0), "alerts")

    def change(self, work: Callable[[WatchState], T]) -> T:
        """Let ``work`` change the state; return what it returns.

        A look at a store takes seconds, in which the file is not held. Where another process has
        changed the state meanwhile, ``work`` begins anew with what that left.

        Raises `ConfigurationError` if the file cannot be written or read.
        """
        try:
            for _ in range(MAX_TRIES):
                text, version = self._text.read()
                state = WatchState.load(text)
                result = work(state)
                if self._text.replace(state.dump(), version):
                    return result
        except OSError as error:
            raise ConfigurationError(
                f"{self._path} cannot be used ({error.strerror}), and without it every look would"
                " report the same alarms again"
            ) from None
        except (sqlite3.Error, Unusable) as error:
            raise ConfigurationError(f"{self._path} cannot be used: {error}") from None
        raise ConfigurationError(f"other processes change {self._path} all the time")

    def close(self) -> None:
        """Close the file."""
        self._text.close()


def warn(text: str) -> None:
    """Write a warning to standard error."""
    sys.stderr.write(f"llmeval watch: {printable(text, 1_000)}\n")
