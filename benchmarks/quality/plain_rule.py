"""How much each escalation rule asks the judge, for typical top-k: prints a Markdown table.

Requests come with k chunks of which 1 to 3 contributed, scored by the real heuristics and decided
by the real Escalation objects. Run: python benchmarks/quality/plain_rule.py
"""

import random

from llmeval_sdk import registry
from llmeval_sdk.evaluation.escalation import Escalation, JudgeGate, default_escalation
from llmeval_sdk.evaluation.scoring import run_heuristic
from llmeval_sdk.model import Chunk, Extraction, Record


TOP_K = (3, 5, 10, 20)
CONTRIBUTING = (1, 2, 3)
REQUESTS = 2_000
NAMES = ("context_recall_heuristic", "recall_warning", "retrieval_risk")
JUDGE = registry.evaluator("context_recall_llm")
WORDS = ("roof", "slate", "wall", "brick", "door", "oak", "window", "glass", "garden", "stair")


def record(rng: random.Random, number: int, k: int, contributing: int) -> Record:
    """A request whose value stands in ``contributing`` of k chunks, at random ranks."""
    ranks = sorted(rng.sample(range(1, k + 1), contributing))
    chunks = tuple(
        Chunk(" ".join(rng.choices(WORDS, k=12)), chunk_id=str(rank), score=rng.random())
        for rank in range(k)
    )
    return Record(
        request=" ".join(rng.sample(WORDS, 3)),
        response="slate",
        value="slate",
        retrieved_context=chunks,
        extractions=tuple(Extraction("slate", rank) for rank in ranks),
        trace_id=f"{number:032x}",
        span_id=f"{number:016x}",
        span_name="extract_field",
    )


def share(escalation: Escalation, k: int, contributing: int) -> float:
    """Return the share of requests that one rule sends to the judge."""
    rng, gate, asked = random.Random(k * 10 + contributing), JudgeGate(escalations=[escalation]), 0
    for number in range(REQUESTS):
        made = record(rng, number, k, contributing)
        scores = (run_heuristic(registry.evaluator(name), made) for name in NAMES)
        decision = gate.decide(JUDGE, made, {each.name: each for each in scores})
        asked += hasattr(decision, "probability")
    return asked / REQUESTS


def main() -> None:
    print("| retrieved chunks | " + " | ".join(f"{n} contributed" for n in CONTRIBUTING), end="")
    print(" | `share=0.2`, 1 to 3 contributed |\n| ---: |" + " ---: |" * 4)
    budget = Escalation(JUDGE, share=0.2, by="retrieval_risk")
    for k in TOP_K:
        plain = [share(default_escalation(), k, n) for n in CONTRIBUTING]
        spent = [share(budget, k, n) for n in CONTRIBUTING]
        cells = [f"{each:.0%}" for each in plain] + [f"{min(spent):.1%} to {max(spent):.1%}"]
        print(f"| {k} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
