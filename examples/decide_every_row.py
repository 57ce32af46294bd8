"""A decision model judges every row in one request: a probability each, and the cost beforehand."""

import llmeval_sdk as llmeval
from llmeval_sdk.judges.models.decisions import HttpDecisions
from llmeval_sdk.offline import estimate_cost
from llmeval_sdk.testing.decision_server import DecisionServer


ROWS = [
    {
        "request": "When does the ferry leave?",
        "response": "The ferry leaves at 08:40 from the east pier.",
        "retrieved_context": [{"content": "The ferry leaves the east pier at 08:40."}],
    },
    {
        "request": "What does a ticket cost?",
        "response": "A ticket costs twelve euros, children travel free.",
        "retrieved_context": [{"content": "The ferry leaves the east pier at 08:40."}],
    },
]
JUDGES = ["groundedness", "relevance_to_query", "chunk_relevance"]

with DecisionServer() as server:  # rules that stand in for a model
    model = HttpDecisions("systemone/stand-in", base_url=server.base_url)  # or "openai/gpt-6-luna"

    estimate = estimate_cost(
        ROWS, evaluators=JUDGES, decisions=model, prices={"stand-in": (0.1, 0)}
    )
    print(f"{estimate.models[0].requests} requests, about ${estimate.cost_usd:.6f}")

    report = llmeval.evaluate(
        ROWS,
        evaluators=JUDGES,
        decisions=model,
        thresholds={"groundedness": 0.7},
        cache=False,
        progress=False,
    )
    print(len(server.decisions), "requests were made")

for row in report.rows:
    for name, evaluation in row.evaluations.items():
        print(f"{row.number}. {name}: {evaluation.value}, {evaluation.probability:.2f} good")

# A judge model could look at what stays uncertain: the condition reads the probability.
unsure = llmeval.Escalation("groundedness", when=llmeval.between("groundedness", 0.2, 0.8))
print([unsure.when.holds(row.evaluations) for row in report.rows])
