"""Two versions of a prompt on live traffic: which is better, and what is only their mix of spans.

`llmeval compare --by tag:prompt_version` does this with what a store holds. Here the second version
is no worse at anything; it just gets more of the hard requests.
"""

import random

from llmeval_sdk.statistics import Seen, Tally, standardised_difference


HARD = {"v1": 0.2, "v2": 0.6}
"""The part of each version's requests that is hard."""
BAD = {"easy": 0.05, "hard": 0.30}

chance = random.Random(1)  # noqa: S311
versions = {"v1": {}, "v2": {}}
for _ in range(6_000):
    version = chance.choice(["v1", "v2"])
    kind = "hard" if chance.random() < HARD[version] else "easy"
    good = float(chance.random() >= BAD[kind])
    is_judged = chance.random() < 0.2  # a fifth is judged here, at random
    tally = versions[version].setdefault(kind, Tally())
    tally.add(Seen(good if is_judged else None, chance=0.2))

found = standardised_difference(versions["v1"], versions["v2"])
print(f"plain difference {found.plain:+.3f}, of which {found.due_to_mix:+.3f} is due to the mix")
change = found.difference
print(f"on the same mix {change.mean:+.3f}, 95 % interval at any time", end=" ")
print(f"{change.low:+.3f} to {change.high:+.3f}: {'clear' if change.is_clear else 'not clear'}")
