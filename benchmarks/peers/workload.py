"""What every peer traces: a call with a short question, one with 20 KB, and one over five chunks."""

ANSWER = "Slate, says the survey of 1998; the annex has tiles."
SENTENCE = (
    "The survey of 1998 says that the roof of the barn at {n} Mill Lane is covered with slate. "
)
CHUNKS = [
    {
        "content": "".join(SENTENCE.format(n=7 * n + m) for m in range(6))[:500],
        "chunk_id": str(n),
        "score": 0.9 - n / 100,
        "page": n,
        "retrieval_method": ("bm25", "knn")[n % 2],
    }
    for n in range(5)
]
_PROMPT = "".join(SENTENCE.format(n=n) for n in range(240))[:20_000]


def small(number):
    """Return a question with the mark by which the sink counts it."""
    return f"mk_{number}_ Which material covers the roof of the barn?"


def large(number):
    """Return a prompt of 20 KB of prose with its mark."""
    return small(number) + _PROMPT
