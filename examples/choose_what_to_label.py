"""Forty labels that say more: which judged records to label, and what people would say.

`llmeval label` and the viewer hand out the records of a store in this way.
"""

import random

from llmeval_sdk.statistics import Candidate, Labelled, choose, corrected_mean


chance = random.Random(3)  # noqa: S311
truth, judged = {}, []
for number in range(1_000):  # a fifth of the traffic: risky requests for certain, others by chance
    risk = chance.random()
    good = chance.random() >= 0.2 * risk
    inclusion = 1.0 if risk > 0.9 else 0.15
    if chance.random() >= inclusion:
        continue
    verdict = good if chance.random() < 0.9 else not good  # the judge errs one time in ten
    truth[str(number)] = float(good)
    judged.append(Candidate(str(number), float(verdict), inclusion, risk))

by_id = {each.id: each for each in judged}
values, chances = [each.verdict for each in judged], [each.chance for each in judged]
at_random = chance.sample(judged, 40)
chosen = choose(judged, 40)
for how, labels in (
    ("at random", [Labelled(e.verdict, truth[e.id], e.chance) for e in at_random]),
    ("chosen", [
        Labelled(by_id[c.id].verdict, truth[c.id], by_id[c.id].chance, c.chance) for c in chosen
    ]),
):  # fmt: skip
    people = corrected_mean(values, chances, labels).estimate
    print(f"40 labels {how}: people would say {people.mean:.3f}", end=", ")
    print(f"95 % interval {people.low:.3f} to {people.high:.3f}")
