"""How ``llmeval report`` shows the app's own traffic, and how plain alerts stand."""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from llmeval_sdk.cli.options import open_store, pricing
from llmeval_sdk.cli.output import heading, say, say_json, say_wrapped, table
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.store.populations import PERIODS
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.thresholds import Measured, measure, split
from llmeval_sdk.store.traffic import (
    Percentiles,
    Traffic,
    TrafficGroup,
    TrafficScope,
    from_the_future,
    traffic,
)
from llmeval_sdk.store.words import moment
from llmeval_sdk.text.terminal import plural, printable, seconds


MOST_ROWS = 50
"""How many groups a table shows; ``--json`` has a thousand."""
DAY_NS = 86_400_000_000_000
_LEAST_SHOWN = 0.00005
"""The smallest cost, in US dollars, that four decimals do not round to zero."""


def report_traffic(args: argparse.Namespace) -> int:
    """Print ``llmeval report --by model`` and the like."""
    if args.evaluator:
        raise ConfigurationError(
            f"--by {args.by} is about the app's traffic: it has no --evaluator"
        )
    with open_store(args.store) as reader, _no_collector():
        if scored := reader.read(lambda store: split(store, args.alert))[1]:
            raise ConfigurationError(
                f"--by {args.by} has no scores, so it cannot decide {scored[0]}"
            )
        summed = read_traffic(reader, args)
        alerts = plain_alerts(reader, args)
        future = reader.read(lambda store: from_the_future(store, time.time_ns()))
        location = reader.location
    if args.json:
        plain: dict[str, Any] = {"store": location, "since_ns": args.since}
        plain |= {"traffic": summed, "from_the_future": future, "alerts": alerts}
        say_json(plain)
    else:
        say(f"{location}{f', since {moment(args.since)}' if args.since else ''}")
        _show_traffic(summed, future)
        _show_plain_alerts(alerts)
    return _exit_code(alerts)


def read_traffic(reader: StoreReader, args: argparse.Namespace) -> Traffic:
    """Sum up the spans that ``--since`` and ``--span-name`` select, in the groups of ``--by``.

    They are grouped by name where ``--by`` is about the trend of the judges. Its connection is its
    own, so that a thread may do it beside other readings.
    """
    scope = TrafficScope(args.since, None, args.span_name)
    by = "name" if args.by in (None, *PERIODS) else args.by
    with reader.another() as other:
        return other.read(lambda store: traffic(store, scope, by, pricing(args.prices)))


def plain_alerts(reader: StoreReader, args: argparse.Namespace) -> list[Measured]:
    """Compare the traffic since ``--since``, or of the last day, with the plain bounds."""
    now = time.time_ns()
    window = args.since or now - DAY_NS, now
    return reader.read(
        lambda store: measure(
            store,
            split(store, args.alert)[0],
            window,
            span_name=args.span_name,
            pricing=pricing(args.prices),
        )
    )


def _show_traffic(summed: Traffic, future: int = 0) -> None:
    """Print the groups as a table, and what the figures leave out."""
    if not summed.groups:
        say("No spans" + (" of models" if summed.by == "model" else "") + " match.")
        return
    heading(f"Traffic by {printable(summed.by)}")
    titles: tuple[str, ...] = (
        summed.by.partition(":")[2] or summed.by, _counted(summed.groups), "failed", "no answer",
        "p50", "p95", "p99", "first token p95", "tokens/s p50", "tokens in", "out", "cost",
    )  # fmt: skip
    shown = summed.groups[:MOST_ROWS]
    rows = [_row(group) for group in shown]
    if not any(group.no_answer for group in summed.groups):
        place = titles.index("no answer")
        titles, *rows = ((*row[:place], *row[place + 1 :]) for row in (titles, *rows))
    table(titles, rows, numbers="spans calls requests count failed p50 p95 p99 out cost")
    for line in _notes(summed, len(summed.groups) - len(shown) - bool(summed.left_out), future):
        say_wrapped(printable(line, 1_000))


def show_traffic_below(summed: Traffic, alerts: Sequence[Measured]) -> None:
    """Print the traffic if there is any, and then the plain alerts."""
    if summed.groups:
        _show_traffic(summed)
    _show_plain_alerts(alerts)


def _counted(groups: Sequence[TrafficGroup]) -> str:
    units = {group.unit for group in groups}
    return f"{units.pop()}s" if len(units) == 1 else "count"


def _row(group: TrafficGroup) -> tuple[str, ...]:
    return (
        group.key if group.key is not None else "(none)",
        f"{group.count:,}" + (" calls" if group.unit == "call" and not group.count else ""),
        f"{group.error_rate:.1%}" if group.failed else "0",
        "-" if group.no_answer is None else f"{group.no_answer:.1%}",
        *_times(group.latency_seconds),
        _time(group.time_to_first_token_seconds),
        "-" if group.tokens_per_second is None else f"{group.tokens_per_second.p50:,.0f}",
        f"{group.input_tokens:,}" if group.calls else "-",
        f"{group.output_tokens:,}" if group.calls else "-",
        _money(group),
    )


def _times(of: Percentiles | None) -> tuple[str, str, str]:
    return ("-", "-", "-") if of is None else (seconds(of.p50), seconds(of.p95), seconds(of.p99))


def _time(of: Percentiles | None) -> str:
    return "-" if of is None else seconds(of.p95)


def _money(group: TrafficGroup) -> str:
    if group.cost_usd is None:
        return "unknown" if group.unpriced_calls else "-"
    sign = "≥ " if group.unpriced_calls else ""
    if 0 < group.cost_usd < _LEAST_SHOWN:
        return f"{sign}${group.cost_usd:.1e}"
    return f"{sign}${group.cost_usd:,.4f}"


def _notes(summed: Traffic, hidden: int, future: int) -> Iterator[str]:
    total = summed.total
    if hidden or summed.left_out:
        yield (
            f"{hidden + summed.left_out:,} further groups are not shown; --json has the first"
            f" {len(summed.groups) - bool(summed.left_out):,} and adds up the rest."
        )
    if total.calls:
        parts = [f"{plural(total.count, 'model call')} with {total.input_tokens:,} tokens in"]
        cached = total.cache_read_input_tokens
        if cached:
            parts.append(f"of which a cache had {cached:,}")
        parts.append(f"{total.output_tokens:,} out")
        if total.reasoning_output_tokens:
            parts.append(f"of which {total.reasoning_output_tokens:,} were reasoning")
        silent = total.count - total.calls
        unknown = f"; usage unknown of {plural(silent, 'call')}" if silent else ""
        yield f"In all: {', '.join(parts)}{unknown}; cost {_money(total)}."
    errors = [(kind, times) for group in summed.groups for kind, times in group.error_types.items()]
    if errors:
        by_type: dict[str, int] = {}
        for kind, times in errors:
            by_type[kind] = by_type.get(kind, 0) + times
        most = sorted(by_type.items(), key=lambda item: -item[1])[:6]
        yield "Failures: " + ", ".join(f"{kind} {times:,}" for kind, times in most) + "."
    yield from _unknown_costs(summed)
    jumps = sum(group.clock_jumps for group in summed.groups)
    if jumps:
        yield (
            "Spans that end before they begin, because a clock jumped, are in no latency; there"
            f" {'is' if jumps == 1 else 'are'} {jumps:,}."
        )
    if future:
        yield f"Requests that began in the future, by their clock: {future:,}."


def _unknown_costs(summed: Traffic) -> Iterator[str]:
    """Yield a sentence for each reason why the cost of some calls is unknown."""
    if summed.unpriced_models:
        yield (
            f"No price is known for {_models(summed.unpriced_models)}: their cost is not in these"
            " figures. Name the price with --prices or LLMEVAL_PRICES, as in 'my-model=0.5,1.5'."
        )
    if summed.silent_models:
        yield (
            f"No usage is known for {_models(summed.silent_models)}: their cost is not in these"
            " figures. Record it with annotate(metrics={'input_tokens': ...,"
            " 'output_tokens': ...}); some providers tell it of a stream only when asked."
        )


def _models(calls: Mapping[str, int]) -> str:
    return ", ".join(f"{model} ({plural(times, 'call')})" for model, times in calls.items())


def _show_plain_alerts(alerts: Sequence[Measured]) -> None:
    """Print how plain bounds stand."""
    for alert in alerts:
        window = f"from {moment(alert.since_ns)} to {moment(alert.until_ns)}"
        value = "nothing was measured" if alert.value is None else f"it is {alert.value:.4g}"
        state = {True: "ALERT", False: "no alert", None: "cannot be decided"}[alert.holds]
        detail = f"; {alert.detail}" if alert.detail else ""
        say_wrapped(
            printable(
                f"{alert.alert}: {state}, {value} {window} ({_of(alert)}){detail}",
                1_000,
            )
        )


def _of(alert: Measured) -> str:
    return plural(alert.count, "request") if "feedback" not in alert.detail else "what users said"


def _exit_code(alerts: Sequence[Measured]) -> int:
    """Return 1 if an alarm is in force, 2 if one cannot be decided, else 0."""
    held = [alert.holds for alert in alerts]
    return 1 if True in held else 2 if None in held else 0


@contextmanager
def _no_collector() -> Iterator[None]:
    """Switch off the collector of reference cycles: it looks at each of a million rows in vain."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
