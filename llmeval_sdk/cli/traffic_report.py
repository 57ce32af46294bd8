"""How ``llmeval report`` shows the app's own traffic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from llmeval_sdk.cli.output import heading, say, say_wrapped, table
from llmeval_sdk.store.selection import values_of
from llmeval_sdk.store.traffic import BY_SELECTION, Percentiles, Traffic, TrafficGroup
from llmeval_sdk.text.terminal import plural, printable, seconds


MAX_ROWS = 50
"""How many groups a table shows; with ``--json`` the first thousand are printed."""
_MIN_SHOWN = 0.00005
"""A smaller cost, in US dollars, would be rounded to $0.0000."""


def show_traffic(summed: Traffic, future: int = 0, by: Sequence[str] = ()) -> None:
    """Print the groups as a table, and what the figures leave out.

    ``by`` names the groupings where they are those of the reader's selection.
    """
    by = by if summed.by == BY_SELECTION else (summed.by,)
    if not summed.groups:
        say("No spans" + (" of models" if summed.by == "model" else "") + " match.")
        return
    heading(f"Traffic by {printable(' and '.join(by))}")
    whole, sign = summed.completeness, ""
    if whole is not None:
        say_wrapped(printable(whole.sentence, 1_000))
        sign = whole.sign
    latencies = [group.latency_seconds for group in summed.groups]
    has_interval = any(one is not None and one.p95_interval is not None for one in latencies)
    p95 = "p95 (95 %)" if has_interval else "p95"
    titles: tuple[str, ...] = (
        *(one.partition(":")[2] or one for one in by), _counted(summed.groups), "failed",
        "no answer", "p50", p95, "p99", "first token p95", "tokens/s p50", "tokens in",
        "out", "cost",
    )  # fmt: skip
    shown = summed.groups[:MAX_ROWS]
    rows = [_row(group, len(by), sign) for group in shown]
    if not any(group.no_answer for group in summed.groups):
        place = titles.index("no answer")
        titles, *rows = ((*row[:place], *row[place + 1 :]) for row in (titles, *rows))
    table(titles, rows, numbers="spans calls requests count failed p50 p95 p99 out cost")
    for line in _notes(summed, len(summed.groups) - len(shown) - bool(summed.left_out), future):
        say_wrapped(printable(line, 1_000))


def plain_traffic(summed: Traffic | None, by: Sequence[str]) -> dict[str, Any] | None:
    """Return traffic as JSON has it; with two groupings, ``group`` has the value of each."""
    if summed is None:
        return None
    plain = asdict(summed)
    if summed.completeness is not None:
        plain["completeness"] |= {
            "share": summed.completeness.share, "sentence": summed.completeness.sentence,
        }  # fmt: skip
    if summed.by == BY_SELECTION:
        plain["by"] = list(by)
        for group in plain["groups"]:
            group["group"] = values_of(group["key"], len(by))
            group["key"] = ", ".join(filter(None, group["group"]))
    return plain


def _counted(groups: Sequence[TrafficGroup]) -> str:
    units = {group.unit for group in groups}
    return f"{units.pop()}s" if len(units) == 1 else "count"


def _row(group: TrafficGroup, width: int, sign: str) -> tuple[str, ...]:
    return (
        *values_of(group.key, width),
        f"{sign}{group.count:,}" + (" calls" if group.unit == "call" and not group.count else ""),
        f"{group.error_rate:.1%}" if group.failed else "0",
        "-" if group.no_answer is None else f"{group.no_answer:.1%}",
        *_times(group.latency_seconds),
        _time(group.time_to_first_token_seconds),
        "-" if group.tokens_per_second is None else f"{group.tokens_per_second.p50:,.0f}",
        f"{sign}{group.input_tokens:,}" if group.calls else "-",
        f"{sign}{group.output_tokens:,}" if group.calls else "-",
        _money(group, sign),
    )


def _times(of: Percentiles | None) -> tuple[str, str, str]:
    if of is None:
        return "-", "-", "-"
    interval = ""
    if of.p95_interval is not None:
        low, high = map(seconds, of.p95_interval)
        interval = f" [{low}, {high}]"
    return seconds(of.p50), f"{seconds(of.p95)}{interval}", seconds(of.p99)


def _time(of: Percentiles | None) -> str:
    return "-" if of is None else seconds(of.p95)


def _money(group: TrafficGroup, sign: str = "") -> str:
    if group.cost_usd is None:
        return "unknown" if group.unpriced_calls else "-"
    sign = "≥ " if group.unpriced_calls else sign
    if 0 < group.cost_usd < _MIN_SHOWN:
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
        sign = "" if summed.completeness is None else summed.completeness.sign
        calls = f"{sign}{plural(total.count, 'model call')}"
        parts = [f"{calls} with {total.input_tokens:,} tokens in"]
        cached = total.cache_read_input_tokens
        if cached:
            parts.append(f"of which a cache had {cached:,}")
        parts.append(f"{total.output_tokens:,} out")
        if total.reasoning_output_tokens:
            parts.append(f"of which {total.reasoning_output_tokens:,} were reasoning")
        silent = total.count - total.calls
        unknown = f"; usage unknown of {plural(silent, 'call')}" if silent else ""
        yield f"In all: {', '.join(parts)}{unknown}; cost {_money(total, sign)}."
        if sign and total.cost_interval is not None:
            low, high = total.cost_interval
            yield f"95 % interval of the cost: ${low:,.4f} to ${high:,.4f}."
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
