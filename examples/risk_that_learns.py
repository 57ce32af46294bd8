"""The risk score learns what is bad in this app: polite endings are fine, invented years are not.

No passage supports a polite ending, so the shipped score finds it risky. The judge does not mind.
"""

import json
import random
import re
import time

import llmeval_sdk as llmeval
from llmeval_sdk.exporters import memory


draw = random.Random(1)  # noqa: S311
QUESTION = "When was the lighthouse of Skerry built?"


def judge(prompt: str) -> str:
    """Judge by the year alone, in the place of a model."""
    years = re.findall(r"built in (\d{4})", prompt.rpartition("When was")[2])
    rating = "yes" if len(set(years)) < 2 else "no"
    return json.dumps({"rationale": "by the year", "rating": rating})


@llmeval.workflow
def answer(question: str, *, invents: bool, polite: bool) -> str:
    year = draw.randint(1700, 1900)
    passage = f"The lighthouse of Skerry was built in {year}."
    llmeval.annotate(retrieved_context=[{"content": passage}])
    told = passage.replace(str(year), str(year + draw.randint(1, 90))) if invents else passage
    return told + " Kindly reach out whenever further assistance seems desirable." * polite


def risk(*, invents: bool, polite: bool) -> llmeval.Evaluation:
    answer(QUESTION, invents=invents, polite=polite)
    llmeval.flush()
    scores = (event.evaluation for event in reversed(memory.evaluations()))
    return next(score for score in scores if score.name == "groundedness_risk")


def show(when: str) -> None:
    polite, invented = risk(invents=False, polite=True), risk(invents=True, polite=False)
    print(f"{when}: polite ending {polite.value:.2f}, invented year {invented.value:.2f}")


llmeval.configure(
    exporters=["memory"],
    llm=judge,
    escalations=[llmeval.Escalation("groundedness", share=1.0)],
    budget=llmeval.Budget(calls_per_minute=10_000, tokens_per_minute=10_000_000),
)
show("as shipped")
while "learned" not in (about := risk(invents=False, polite=True).metadata):
    for _ in range(25):  # 100 verdicts make a fit, 50 later ones check it, and then it is used
        answer(QUESTION, invents=draw.random() < 0.4, polite=draw.random() < 0.5)
    llmeval.flush()
    time.sleep(0.2)  # the worker learns when there is nothing else to do
show("as learned")
print(f"version {about['learned']}, from {about['learned_from']} verdicts")
