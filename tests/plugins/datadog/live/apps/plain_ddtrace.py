"""An app written for ddtrace alone; two lines make our evaluators score its spans."""

import sys

import openai
from ddtrace.llmobs import LLMObs
from ddtrace.llmobs.decorators import llm, retrieval, task, workflow

from llmeval_sdk.testing.judge_server import JudgeServer


server = JudgeServer().__enter__()
client = openai.OpenAI(base_url=server.base_url, api_key="x", max_retries=0)


@retrieval
def find(question):
    LLMObs.annotate(
        input_data=question,
        output_data=[
            {"text": "The roof is slate.", "name": "d.pdf", "id": "c1", "score": 0.9},
            {"text": "The barn is old.", "id": "c2", "score": 0.1},
        ],
    )


@llm(model_name="m", model_provider="p")
def ask(question):
    LLMObs.annotate(
        prompt={
            "id": "p1",
            "template": "t",
            "variables": {"question": question, "context": "slate roof"},
        },
        input_data=[{"role": "user", "content": question}],
        output_data=[{"role": "assistant", "content": "The roof is slate."}],
        metrics={"input_tokens": 5, "output_tokens": 4, "total_tokens": 9},
    )


@task
def step():
    return (
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
        .choices[0]
        .message.content
    )


@workflow
def answer(question):
    find(question)
    ask(question)
    step()
    return "The roof is slate."


def main():
    LLMObs.enable(ml_app="plain", agentless_enabled=False)
    import llmeval_sdk as llmeval
    from llmeval_sdk.plugins.datadog.source import evaluate_spans

    llmeval.configure(
        evaluators=["groundedness", "total_token_count"],
        llm="stand-in",
        judge_base_url=server.base_url,
        judge_api_key="x",
    )
    evaluate_spans()
    evaluate_spans()
    answer("What is the roof made of?")

    @llmeval.workflow
    def ours(question):
        return step()

    ours("ours around theirs")
    with llmeval.disabled():
        answer("disabled")
    stats = llmeval.flush(20)
    print("judged", dict(stats.judged), "problems", dict(stats.problems))
    print("not_run", {name: dict(each) for name, each in stats.not_run.items()})


if __name__ == "__main__":
    sys.exit(main())
