"""Two versions of a prompt on live traffic, of which a fifth is judged: which one is better?

`llmeval compare --by tag:prompt_version` does this with what a store holds.
"""

import random

from llmeval_sdk.statistics import difference, population_mean


BAD = {"v1": 0.05, "v2": 0.15}

chance = random.Random(1)  # noqa: S311
verdicts = {"v1": [], "v2": []}
for _ in range(6_000):
    version = chance.choice(["v1", "v2"])
    if chance.random() < 0.2:  # a fifth is judged here, at random
        verdicts[version].append(float(chance.random() >= BAD[version]))

means = {name: population_mean(seen, [0.2] * len(seen)) for name, seen in verdicts.items()}
for name, mean in means.items():
    print(f"{name}: {mean.mean:.3f} of {len(verdicts[name])} judged requests pass")
change = difference(means["v2"], means["v1"])
print(f"difference {change.mean:+.3f}, 95 % interval", end=" ")
print(f"{change.low:+.3f} to {change.high:+.3f}: {'clear' if change.is_clear else 'not clear'}")
