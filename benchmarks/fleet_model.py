"""What a fleet of any size asks of Redis and of its judges: arithmetic from measured figures.

Little's law for judges, prices, and the commands that a judgement has of Redis.
"""

from math import ceil

from llmeval_sdk.model import DAY_SECONDS
from llmeval_sdk.plugins.shared.verdicts import SECONDS


JUDGED_SHARE = 0.02
"""Part of the requests that is judged."""
JUDGE_SECONDS = 0.5
CONCURRENCY = 8
"""Calls at a time in a process, `LLMEVAL_JUDGE_CONCURRENCY`."""
REQUESTS_OF_A_PROCESS = 50
"""Requests a second that a process of the app serves."""
USD_A_CALL = 0.0005
RECORD_BYTES = 4_000
"""With five passages of 500 characters; the local store keeps it, an exporter sends it."""
VERDICT_BYTES = 1_100
"""In Redis, as `benchmarks.fleet_shared` prints it."""
COMMANDS_OF_A_VERDICT = 2
"""One asks for it, one keeps it."""


def row(requests, commands):
    """Return what a fleet needs that serves so many requests a second."""
    judged = requests * JUDGED_SHARE
    under_way = judged * JUDGE_SECONDS
    return {
        "requests a second": f"{requests:,}",
        "records a second, MB": f"{requests * RECORD_BYTES / 1e6:,.2f}",
        "judge calls a second": f"{judged:,.1f}",
        "calls under way": f"{under_way:,.1f}",
        "waiting after a minute without a judge": f"{judged * 60:,.0f}",
        "USD a day, if nothing limits it": f"{judged * DAY_SECONDS * USD_A_CALL:,.0f}",
        "verdicts kept in Redis, MB": f"{judged * SECONDS * VERDICT_BYTES / 1e6:,.1f}",
        "app processes": f"{max(1, ceil(requests / REQUESTS_OF_A_PROCESS)):,}",
        "judging workers": f"{max(1, ceil(under_way / CONCURRENCY)):,}",
        "Redis commands a second": f"{judged * (commands + COMMANDS_OF_A_VERDICT):,.0f}",
    }


def print_table(commands):
    """Print the rows for three sizes; the page on capacity holds them."""
    rows = [row(requests, commands) for requests in (10, 1_000, 100_000)]
    for what in rows[0]:
        print(f"{what:<44} " + " ".join(f"{each[what]:>16}" for each in rows))
