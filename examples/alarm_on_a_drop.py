"""An alarm that may be looked at every hour: quality drops on the third day, and one is raised."""

import random

from llmeval_sdk.statistics import Evidence, Seen


HOUR_NS = 3_600_000_000_000
LEVEL = 1 / 0.05
"""Evidence that a mean at the bound reaches in at most 5 % of months, however often one looks."""

chance = random.Random(2)  # noqa: S311
evidence = Evidence(bound=0.9)
for hour in range(24 * 7):
    bad = 0.07 if hour < 48 else 0.25
    requests = []
    for _ in range(40):  # a fifth is judged here, at random; the chance is what matters
        good = float(chance.random() >= bad)
        requests.append(Seen(good if chance.random() < 0.2 else None, chance=0.2))
    evidence.add(hour * HOUR_NS, 1.0, requests)
    if evidence.total >= LEVEL:
        print(f"hour {hour}: the mean is below {evidence.bound}, evidence {evidence.total:.0f}")
        print(f"it began at about hour {evidence.since_ns // HOUR_NS}; truly at hour 48")
        break
else:
    print("no alarm in a week")
