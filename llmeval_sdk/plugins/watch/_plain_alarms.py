"""Plain bounds on the traffic, for ``llmeval watch``: an alarm is told once, and so is its end."""

from __future__ import annotations

from collections.abc import Sequence

from llmeval_sdk.cli.options import pricing
from llmeval_sdk.plugins.watch._watch_state import AlertMessage, PlainAlarm, WatchState
from llmeval_sdk.store.alert_state import Bound
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.thresholds import Measured, measure
from llmeval_sdk.store.words import moment
from llmeval_sdk.text.terminal import plural


def look_at_traffic(
    reader: StoreReader, state: WatchState, bounds: Sequence[Bound], now_ns: int, window_ns: int
) -> list[tuple[Measured, PlainAlarm]]:
    """Compare the window's traffic with bounds; put alarms that began or ended into the outbox."""
    period = now_ns - window_ns, now_ns
    measured = reader.read(lambda store: measure(store, list(bounds), period, pricing=pricing()))
    standings = []
    for result in measured:
        alarm = state.plain.setdefault(result.alert, PlainAlarm())
        if result.holds and not alarm.since_ns:
            alarm.since_ns = now_ns
            _put(state, result, "raised", now_ns)
        elif result.holds is False and alarm.since_ns:
            alarm.since_ns = 0
            _put(state, result, "over", now_ns)
        standings.append((result, alarm))
    return standings


def _put(state: WatchState, result: Measured, kind: str, now_ns: int) -> None:
    value = "nothing" if result.value is None else f"{result.value:.4g}"
    window = f"from {moment(result.since_ns)} to {moment(result.until_ns)}"
    measured = f"it was {value} {window}, over {plural(result.count, 'request')}"
    word = "ALARM" if kind == "raised" else "the alarm is over"
    text = f"{word} {result.alert}: {measured}"
    if kind == "over":
        text = f"{result.alert}: {word}; {measured}"
    facts = {
        "alert": result.alert, "at": moment(now_ns), "value": result.value,
        "requests": result.count, "since": moment(result.since_ns),
    }  # fmt: skip
    identity = f"{result.alert}-{kind}-{now_ns}"
    state.outbox.append(
        AlertMessage(identity, result.alert, kind, now_ns, text, facts, put_ns=now_ns)
    )
