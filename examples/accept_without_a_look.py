"""Which values need no look: a threshold for their chances, with what is promised below it.

`llmeval label --for accept` and `llmeval accept` do this with the values of a store.
"""

import random

from llmeval_sdk.statistics import LabelledScore, sure_acceptance


chance = random.Random(5)  # noqa: S311


def value() -> LabelledScore:
    """A value of the traffic: one in twelve is wrong, and most of those have a higher score."""
    wrong = chance.random() < 1 / 12
    return LabelledScore(chance.betavariate(4, 3) if wrong else chance.betavariate(1, 6), wrong)


traffic = [value() for _ in range(5_000)]
labels = chance.sample(traffic, 300)  # people looked at these, which were drawn at random
scores = [each.score for each in traffic]
for error in (0.05, 0.02, 0.005):
    sure = sure_acceptance(scores, labels, error)
    print(f"{error:.1%} wrong is acceptable")
    if sure.threshold is None:
        print(f"  with 95 % confidence: nothing; {sure.missing} more labels would do")
    else:
        print(f"  with 95 % confidence: {sure.share:.0%} need no look, up to {sure.threshold:.2f}")
