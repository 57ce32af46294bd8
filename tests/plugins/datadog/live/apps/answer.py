"""A small RAG app with every kind of evaluation; used in each mode."""

import sys

import llmeval_sdk as llmeval


CHUNKS = [
    {
        "content": "The roof is slate.",
        "chunk_id": "c1",
        "score": 0.9,
        "page": 1,
        "doc_uri": "d.pdf",
    },
    {"content": "The barn is old.", "chunk_id": "c2", "score": 0.1, "doc_uri": "e.pdf"},
]


@llmeval.heuristic(inline=True)
def mentions_slate(record) -> bool:
    return "slate" in (record.response or "")


@llmeval.heuristic
def broken(record) -> float:
    raise KeyError("no such thing")


@llmeval.heuristic
def endless(record) -> float:
    return float("nan")


@llmeval.retrieval
def find(question):
    return CHUNKS


@llmeval.llm(model_name="gpt-4o", model_provider="openai")
def ask(messages):
    llmeval.annotate(
        prompt={
            "id": "p1",
            "template": "{{question}}",
            "variables": {"question": "roof?", "context": "slate"},
        },
        metrics={"input_tokens": 11, "output_tokens": 2, "total_tokens": 13, "odd": float("nan")},
    )
    return {"role": "assistant", "content": "slate"}


@llmeval.task
def stream():
    yield "sl"
    yield "ate"


@llmeval.embedding(model_name="small")
def embed(text):
    return [0.5, 0.25]


@llmeval.tool
def look_up(key):
    return {"found": key}


@llmeval.workflow(session_id="session-1", tags={"team": "roofs"})
def answer(question):
    find(question)
    embed(question)
    look_up("roof")
    "".join(stream())
    said = ask([{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}])
    llmeval.annotate(
        extractions=[{"value": "slate", "chunk_number": 1, "evidence": "The roof is slate."}],
        metadata={"field": "roof", "weight": float("inf")},
    )
    ids = llmeval.export_span()
    llmeval.submit_evaluation(
        label="own.score", metric_type="score", value=0.25, span=ids, reasoning="because",
        assessment="fail", tags={"who": "app"}, metadata={"n": 1}, timestamp_ms=1_700_000_000_000,
    )  # fmt: skip
    llmeval.submit_evaluation(label="tone", value="friendly")
    llmeval.submit_feedback(label="thumbs", value=True, submitter={"id": "u1"})
    return said["content"]


@llmeval.agent
def failing(question):
    raise ValueError("no roof")


if __name__ == "__main__":
    if "--configure" in sys.argv:
        llmeval.configure(exporters=["datadog"])
    answer("What is the roof made of?")
    try:  # noqa: SIM105
        failing("x")
    except ValueError:
        pass
    if "--flush" in sys.argv:
        stats = llmeval.flush(10)
        mine = stats.exporters["datadog"]
        print("created", mine.created, "delivered", mine.delivered, "dropped", dict(mine.dropped))
        print("problems", dict(stats.problems))
