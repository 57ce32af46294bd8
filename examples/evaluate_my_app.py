"""An app under test: it runs for every row, under tracing, and its spans become the inputs."""

import llmeval_sdk as llmeval


SURVEY = {
    "roof": {"content": "The roof is covered with slate.", "doc_uri": "survey.pdf", "score": 0.9},
    "walls": {"content": "The walls are brick.", "doc_uri": "survey.pdf", "score": 0.8},
}


@llmeval.retrieval
def search(question: str) -> list[dict]:
    return [passage for word, passage in SURVEY.items() if word in question]


@llmeval.llm(model_name="tiny")
def ask(question: str, passages: list[dict]) -> str:
    llmeval.annotate(metrics={"input_tokens": 40, "output_tokens": 6})
    return passages[0]["content"]


@llmeval.workflow
async def answer(question: str) -> str:
    return ask(question, search(question))


ROWS = [
    {
        "request": "What is the roof made of?",
        "expected_retrieved_context": [{"doc_uri": "survey.pdf"}],
    },
    {"request": "And the walls?", "expected_retrieved_context": [{"doc_uri": "survey.pdf"}]},
    {"request": "Who lives there?"},  # the app raises on it; the run goes on
]

report = llmeval.evaluate(ROWS, model=answer, concurrency=2)
for path, value in report.metrics.items():
    print(f"{path:50} {value:.2f}")
for row in report.rows:
    print(row.record.request, "->", row.error.type if row.error else row.record.response)
