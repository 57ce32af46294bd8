"""A cascade: a decision about every answer, a judge model where the decision is uncertain.

The two models are stand-ins on this machine: rules on shared words, no models.
"""
# needs: openai

import llmeval_sdk as llmeval
from llmeval_sdk.exporters import memory
from llmeval_sdk.testing.decision_server import DecisionServer


CONTEXT = [{"content": "The ferry leaves the east pier at 08:40 and comes back at noon."}]
ANSWERS = [
    "The ferry leaves the east pier at 08:40.",
    "It leaves the pier, and comes back late at night with supper on board.",
    "Trains depart hourly behind some museum.",
]


@llmeval.workflow
def answer(question: str, text: str) -> str:
    llmeval.annotate(retrieved_context=CONTEXT, request=question)
    return text


with DecisionServer() as server:  # it speaks System One, and chat completions for the judge
    llmeval.configure(
        exporters=["memory"],
        decisions="systemone/stand-in",
        decision_base_url=server.base_url,
        llm="stand-in",
        judge_base_url=server.base_url,
        escalations=[
            llmeval.Cascade("groundedness", low=0.2, high=0.8, control_rate=0.0),
            # another judge may go by what was decided as well
            llmeval.Escalation("safety", when=llmeval.below("groundedness", 0.2)),
        ],
    )
    for text in ANSWERS:
        answer("When does the ferry leave?", text)
    stats = llmeval.flush(timeout=20)
    print(f"{len(server.decisions)} requests for {len(ANSWERS)} decisions")

for event in memory.evaluations():
    found = event.evaluation
    if found.evaluator_kind == "decision":
        print(f"decided  {found.name}: {found.value}, probability {found.probability:.2f}")
    elif found.evaluator_kind == "judge":
        print(f"judged   {found.name}: {found.value}, because {found.metadata['why']}")
print("judged:", dict(sorted(stats.judged.items())))
