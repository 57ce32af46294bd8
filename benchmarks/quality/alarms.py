"""How often an alarm is false, and how late it comes when quality drops: simulated months.

Requests come at 1,000 a day, one in ten is bad, the risk score's AUROC is 0.80 and 20 % are judged
by the real `Quota`; the evidence is looked at every hour. At the bound nothing ought to happen for
30 days; or quality stands ten days at the bound and then drops by 5 or 10 points. The same months
at the bound are told once more as stores get to see them, with `MISHAPS`: the judge dies for
hours and for days, verdicts arrive after their hour was counted, or whole hours do. Last come 50 tenants with an alert
each, as `llmeval watch --by` has: months at the bound, and days until a tenant is named that fell
from it by 25 points.
Run: python -m benchmarks.quality.alarms [--seeds 100]
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from math import inf, sqrt
from statistics import mean, median
from typing import NamedTuple

from benchmarks.quality.sampling import BAD, SHARE, requests
from llmeval_sdk.evaluation.sampling import Quota
from llmeval_sdk.statistics.allocation import default_control
from llmeval_sdk.statistics.mean import Seen
from llmeval_sdk.statistics.sequence import Evidence
from llmeval_sdk.store.alert_state import AlertState, Bound
from llmeval_sdk.store.alerts import level_of
from llmeval_sdk.store.verdicts_by_hour import Hour


HOUR_NS, PER_DAY, ALPHA, CALM_DAYS = 3_600_000_000_000, 1_000, 0.05, 10
TENANTS, TENANT_BOUND, TENANT_FALL, TENANT_CHANCE = 50, 0.85, 0.25, 0.25
TENANT_BARS = {5: 14.0, 20: 5.0}
"""The median days within which a tenant that fell has to be named, by verdicts a day."""


def evidence(
    seed: int, days: int, drop: float = 0.0, control: float | None = None
) -> Iterator[float]:
    """Yield the evidence hour by hour; quality drops after ten days, if it does."""
    rng = random.Random(seed)
    quota = Quota(SHARE, default_control(SHARE) if control is None else control)
    gathered = Evidence(1 - BAD)
    for hour in range(24 * days):
        bad = BAD + (drop if hour >= 24 * CALM_DAYS else 0.0)
        count = (hour + 1) * PER_DAY // 24 - hour * PER_DAY // 24
        gathered.add(
            hour * HOUR_NS,
            1.0,
            [
                Seen(float(not each.bad) if each.chance else None, each.chance or 1.0, each.risk)
                for each in requests(rng, quota, bad, count)
            ],
        )
        yield gathered.total


def false_alarms(seeds: int, days: int = 30) -> list[float]:
    """Return the highest evidence of each month at the bound."""
    return [max(evidence(seed, days)) for seed in range(seeds)]


class Mishap(NamedTuple):
    """What goes wrong in a month."""

    name: str
    is_out: Callable[[int], bool] = lambda _: False
    """Whether the judge loses every judgement of an hour."""
    late_verdicts: float = 0.0
    """The chance of a verdict to arrive one to three hours after its hour was counted."""
    late_hours: float = 0.0
    """The chance of an hour to arrive as a whole, with what nobody chose, three hours late."""


MISHAPS = (
    Mishap("the judge dies for six hours a day, and for two days", lambda hour: hour % 24 < 6 or 240 <= hour < 288),
    Mishap("30 % of the verdicts arrive late", late_verdicts=0.3),
    Mishap("90 % of the verdicts arrive late", late_verdicts=0.9),
    Mishap("all verdicts arrive late", late_verdicts=1.0),
    Mishap("20 % of the hours arrive late, as from a spool", late_hours=0.2),
)  # fmt: skip


def told_evidence(seed: int, days: int, mishap: Mishap) -> Iterator[float]:
    """Yield the evidence that `AlertState` gathers at the bound, hour by hour, with a mishap."""
    rng = random.Random(seed)
    quota = Quota(SHARE, default_control(SHARE))
    alert = AlertState.begun(Bound("judge", "<", 1 - BAD), 0)
    late: dict[int, list[tuple[int, Seen]]] = {}
    for hour in range(24 * days):
        count = (hour + 1) * PER_DAY // 24 - hour * PER_DAY // 24
        seen, lost = [], 0
        for request in requests(rng, quota, BAD, count):
            if request.chance and mishap.is_out(hour):
                lost += 1
                seen.append(Seen(None, 1.0, request.risk))
            elif request.chance:
                verdict = Seen(float(not request.bad), request.chance, request.risk)
                if rng.random() < mishap.late_verdicts:
                    late.setdefault(hour + rng.randint(1, 3), []).append((hour, verdict))
                else:
                    seen.append(verdict)
            else:
                seen.append(Seen(None, 1.0, request.risk))
        if rng.random() < mishap.late_hours:
            late.setdefault(hour + 3, []).extend((hour, each) for each in seen)
            seen = []
        if hour in late:  # as `hours.late` collects them
            left_out = {start // HOUR_NS for start in alert.left_out}
            arrived = [each for number, each in late.pop(hour) if number not in left_out]
            alert.follow_late(_as_hour(hour - 1, arrived), 0, inf)
        alert.follow(_as_hour(hour, seen, lost), inf)
        yield alert.evidence.total


def _as_hour(number: int, seen: list[Seen], lost: int = 0) -> Hour:
    judged = sum(request.value is not None for request in seen)
    last = (number + 1) * HOUR_NS - 1 if judged else 0
    return Hour(number * HOUR_NS, seen, judged, last, lost, versions={"1"} if judged else set())


def delays(
    seeds: int, drop: float, levels: dict[int, float], days: int = 20
) -> dict[int, list[float]]:
    """Return how many days after the drop each level of evidence is reached; by alerts in a file."""
    found: dict[int, list[float]] = {alerts: [] for alerts in levels}
    for seed in range(seeds):
        alert = list(evidence(10_000 + seed, days, drop))
        for alerts, level in levels.items():
            hours = [h for h, total in enumerate(alert) if total >= level]
            first = hours[0] + 1 if hours else 24 * days
            if first > 24 * CALM_DAYS:  # an alarm before the drop is no delay
                found[alerts].append(first / 24 - CALM_DAYS)
    return found


def tenant_alert(seed: int, verdicts_a_day: int, days: int, fall: float) -> Iterator[AlertState]:
    """Yield the alert on one of the tenants after each hour; it falls after ten days, if it does."""
    rng = random.Random(seed)
    alert = AlertState.begun(Bound("judge", "<", TENANT_BOUND), 0)
    per_hour = verdicts_a_day / 24 / TENANT_CHANCE
    for number in range(24 * days):
        good = TENANT_BOUND - (fall if number >= 24 * CALM_DAYS else 0.0)
        seen, at = [], rng.expovariate(per_hour)
        while at < 1:
            judged = rng.random() < TENANT_CHANCE
            seen.append(Seen(float(rng.random() < good), TENANT_CHANCE) if judged else Seen(None))
            at += rng.expovariate(per_hour)
        if seen:
            alert.follow(_as_hour(number, seen), level_of(TENANTS + 1))
        yield alert


def false_tenant_months(months: int, verdicts_a_day: int) -> float:
    """Return in how many months at the bound any of the tenants raises an alarm, as a part."""
    false = 0
    for month in range(months):
        tenants = (
            tenant_alert(month * TENANTS + tenant, verdicts_a_day, 30, 0.0)
            for tenant in range(TENANTS)
        )
        false += any(any(alert.is_alarm for alert in hours) for hours in tenants)
    return false / months


def tenant_delays(seeds: int, verdicts_a_day: int) -> list[float]:
    """Return after how many days a tenant that fell is named."""
    delays = []
    for seed in range(seeds):
        hours = tenant_alert(20_000 + seed, verdicts_a_day, 60, TENANT_FALL)
        raised = [hour for hour, alert in enumerate(hours) if alert.is_alarm][:1] or [60 * 24]
        if raised[0] >= 24 * CALM_DAYS:
            delays.append((raised[0] + 1) / 24 - CALM_DAYS)
    return delays


def tenants_missed(seeds: int) -> bool:
    """Print what holds of 50 tenants; return whether a bar is missed."""
    missed = False
    for verdicts_a_day, bar in TENANT_BARS.items():
        rate = false_tenant_months(seeds, verdicts_a_day)
        spread = 1.96 * sqrt(max(rate * (1 - rate), 0.25 / seeds) / seeds)
        delays = tenant_delays(seeds, verdicts_a_day)
        print(
            f"{TENANTS} tenants, {verdicts_a_day} verdicts a day each: a false alarm of any of them"
            f" in {rate:.1%} ± {spread:.1%} of the months (at most {ALPHA:.0%}); one that fell from"
            f" {TENANT_BOUND} to {TENANT_BOUND - TENANT_FALL:.2f} is named after"
            f" {median(delays):.1f} days (median; at most {bar:.0f})",
            flush=True,
        )
        missed |= rate - spread > ALPHA or median(delays) > bar
    return missed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    args = parser.parse_args()
    levels = {alerts: alerts / ALPHA for alerts in (1, 5)}
    missed = False
    print(f"{args.seeds} seeds, hourly looks, 1,000 requests a day, 20 % judged")
    months = {"at the bound": false_alarms(args.seeds)}
    for mishap in MISHAPS:
        months[f"at the bound, and {mishap.name}"] = [
            max(told_evidence(seed, 30, mishap)) for seed in range(args.seeds)
        ]
    for what, highest in months.items():
        for alerts, level in levels.items():
            rate = mean(top >= level for top in highest)
            spread = 1.96 * sqrt(max(rate * (1 - rate), 0.25 / args.seeds) / args.seeds)
            print(
                f"false alarms in 30 days {what}: {rate:.1%} ± {spread:.1%} of alerts in a file"
                f" of {alerts} (at most {ALPHA / alerts:.0%})",
                flush=True,
            )
            missed |= rate - spread > ALPHA / alerts
    print("| drop | alerts in the file | median delay | 80 % within | bar |")
    print("| --- | --- | --- | --- | --- |")
    for drop, bars in ((0.05, {1: 3.0, 5: 3.5}), (0.10, {1: 1.0, 5: 1.5})):
        for alerts, late in delays(args.seeds, drop, levels).items():
            within = sorted(late)[int(0.8 * len(late))]
            print(
                f"| {100 * drop:.0f} points | {alerts} | {median(late):.2f} days | {within:.1f} |"
                f" {bars[alerts]} |",
                flush=True,
            )
            missed |= median(late) > bars[alerts]
    missed |= tenants_missed(max(args.seeds // 5, 10))
    print("missed" if missed else "met")
    raise SystemExit(missed)


if __name__ == "__main__":
    main()
