"""An app written for ddtrace alone, with users, sessions and answers that are plain texts."""

import json

from ddtrace.llmobs import LLMObs
from ddtrace.llmobs.decorators import llm, workflow


@llm(model_name="m", model_provider="p")
def ask(question):
    LLMObs.annotate(
        prompt={"id": "p1", "variables": {"question": question, "context": "The roof is slate."}},
        input_data=question,
        output_data="The roof is slate.",
        tags={"user_id": "ann", "team": "roofs"},
    )


@workflow(session_id="chat-7")
def answer(question):
    LLMObs.annotate(tags={"user_id": "bob"})
    ask(question)
    return "The roof is slate."


def main():
    LLMObs.enable(ml_app="users", agentless_enabled=False)
    import llmeval_sdk as llmeval
    from llmeval_sdk.judges import BaseJudge
    from llmeval_sdk.model import Evaluation
    from llmeval_sdk.plugins.datadog.source import evaluate_spans

    class Seen(BaseJudge):
        """A judge of llm spans, as Ragas' are, that asks no model."""

        name = "seen"
        needs = ("request", "response", "retrieved_context")
        span_kinds = ("llm",)
        needs_model = False

        async def evaluate(self, record, llm, /):
            chunks = [chunk.content for chunk in record.retrieved_context or ()]
            print("record", json.dumps([record.request, record.response, chunks]))
            return Evaluation(self.name, 1.0)

    llmeval.configure(
        exporters=["datadog", "local"], store="traces.db", evaluators=[Seen()], escalations=[]
    )
    evaluate_spans()
    ask("What is the roof made of?")
    answer("Which roof?")
    LLMObs.flush()
    stats = llmeval.flush(20)
    print("not run", json.dumps({name: dict(why) for name, why in stats.not_run.items()}))
    from llmeval_sdk.store.reader import StoreReader

    with StoreReader("traces.db") as reader:
        rows = reader.read(lambda db: db.execute("SELECT name, session_id, tags FROM spans"))
        print(
            "stored",
            json.dumps([(name, session, json.loads(tags)) for name, session, tags in rows]),
        )


main()
