"""A judge budget: the riskiest fifth is judged, and the average is still that of all answers."""

import random

import llmeval_sdk as llmeval
from llmeval_sdk.exporters import memory
from llmeval_sdk.statistics.mean import population_mean


@llmeval.heuristic(needs=["response"])
def doubt(record: llmeval.Record) -> float:
    """A free score that says something about bad answers; yours is `groundedness_risk`."""
    return record.attributes["doubt"]


@llmeval.judge(needs=["response"])
async def correct(record: llmeval.Record, llm: object) -> bool:
    """Stands in for an LLM judge that knows the truth."""
    return record.response.startswith("right")


@llmeval.workflow
def answer(number: int, bad: bool) -> str:  # noqa: FBT001
    """One answer in eight is wrong."""
    llmeval.annotate(metadata={"doubt": random.gauss(1.5 * bad, 1.0)})
    return f"{'wrong' if bad else 'right'} answer {number}"


random.seed(4)
llmeval.configure(
    exporters=["memory"],
    escalations=[llmeval.Escalation("correct", share=0.2, by="doubt", control_rate=0.02)],
    llm=lambda _: "not asked",
    budget=llmeval.Budget(calls_per_minute=None),
)
for number in range(2_000):
    answer(number, bad=number % 8 == 0)
    if number % 500 == 0:
        llmeval.flush(timeout=20)
stats = llmeval.flush(timeout=20)

judged = [e.evaluation for e in memory.evaluations() if e.evaluation.name == "correct"]
values = [float(each.value == "yes") for each in judged]
found = population_mean(values, [each.inclusion_probability for each in judged])
print("eligible > selected > budgeted > run > scored:", stats.funnels["correct"])
print(f"right among the judged: {sum(values) / len(values):.1%}")
print(f"right in all traffic:   {found.mean:.1%}, 95 % from {found.low:.1%} to {found.high:.1%}")
print("truly:                  87.5%")
