"""An app that has its judges run by a fleet: it hands judgements to Redis and does not wait.

    LLMEVAL_JUDGE_QUEUE=redis://localhost:6379/0 LLMEVAL_FLEET_KEY=… python app.py

Workers, on this host or on others, run with the same two variables and a judge model:

    LLMEVAL_JUDGE_MODEL=gpt-4o OPENAI_API_KEY=… llmeval fleet --app app:configure
"""

import time

import llmeval_sdk as llmeval


polite = llmeval.LLMJudge("polite", "Is the answer polite?\n\n{response}")


def configure() -> None:
    """Configure the app and the workers alike: a message only names the judges."""
    llmeval.configure(evaluators=["groundedness", polite], escalations=[])


@llmeval.workflow
def answer(question: str) -> str:
    with llmeval.retrieval("search", request=question) as step:
        step.retrieved_context = ["The roof is made of slate.", "It was built in 1921."]
    return "The roof is made of slate. You are welcome!"


def main() -> None:
    """Answer some questions, and look at what came back."""
    configure()
    for number in range(5):
        answer(f"What is the roof of house {number} made of?")
    llmeval.flush(timeout=10)  # the fleet has the judgements now; the app could end here
    print("handed over:", llmeval.stats().fleet.get("handed_over", 0))

    deadline = time.monotonic() + 30
    while llmeval.stats().fleet.get("returned", 0) < 10 and time.monotonic() < deadline:
        time.sleep(0.1)  # a real app does not wait: verdicts go to its store as they come
    stats = llmeval.stats()
    print("returned:", stats.fleet.get("returned", 0), "of them judged:", dict(stats.judged))


if __name__ == "__main__":
    main()
