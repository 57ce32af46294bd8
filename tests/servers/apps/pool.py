"""A pool whose children are terminated: by its context manager, or by the end of the job."""

import multiprocessing
import sys

import llmeval_sdk as llmeval


@llmeval.retrieval
def find(name):
    return [{"content": f"about {name}", "chunk_id": "1", "score": 0.5}]


@llmeval.workflow
def answer(name):
    find(name)
    llmeval.submit_evaluation(label="mine", value=0.5)
    return "yes"


def main(method, end):
    context = multiprocessing.get_context(method)
    names = [f"task-{number}" for number in range(200)]
    if end == "traced":
        answer("parent")
        names.append("parent")
    if end == "left":  # for the interpreter to terminate, after all that the app wrote has run
        pool = context.Pool(3)
        pool.map(answer, names)
    else:
        with context.Pool(3) as pool:
            pool.map(answer, [name for name in names if name != "parent"])
    if end == "flushed":
        stats = llmeval.flush(20)
        assert stats.complete
        assert stats.undelivered == 0, stats
    print("\n".join(names))


if __name__ == "__main__":
    main(*sys.argv[1:])
