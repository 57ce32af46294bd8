"""Print what it costs to see that a text has no secret, beside writing the same text as JSON.

JSON is the yardstick because every exporter writes it: what takes a share of that time is lost in
it. Both are measured alternately in one process, so that a slow machine changes no ratio.
"""

import json
import sys
import time

from llmeval_sdk.exporters._secrets import may_have_secrets
from llmeval_sdk.exporters.redaction import Redactor


SENTENCE = "The lease of the house on the hill begins in May, and the rent is due each month. "
CLEAN = (SENTENCE * 30)[:2_000]
CALL = {
    "request": {"model": "m", "messages": [{"role": "user", "content": CLEAN[:1_400]}]},
    "response": CLEAN[1_400:],
    "metadata": {"user": "u1", "top_k": 5},
}
DENSE = ("key:", "password=", "://", "://a:b@ ", "token: ", 'x": ')
RECORD_BAR = 1.0
"""The look at a clean record of 2 KB, in times of writing it as JSON."""
DENSE_BAR = 50.0
"""Redacting 1 MB in which names and addresses abound, in times of writing it as JSON."""


def main():
    redactor = Redactor(("api_key", "jwt"))
    assert not may_have_secrets(CLEAN)
    ratio = beside(lambda: may_have_secrets(CLEAN), lambda: json.dumps(CALL), 200, 50)
    print("| what | times its JSON | bar |\n| --- | --- | --- |")
    print(f"| a clean record of 2 KB | {ratio:.2f} | < {RECORD_BAR:g} |")
    cleared = ratio < RECORD_BAR
    for piece in DENSE:
        text = piece * (1_000_000 // len(piece))
        dense = beside(
            lambda text=text: redactor.detect(text), lambda text=text: json.dumps(text), 1, 5
        )
        print(f"| 1 MB of {piece!r} | {dense:.1f} | < {DENSE_BAR:g} |")
        cleared = cleared and dense < DENSE_BAR
    return 0 if cleared else 1


def beside(ours, yardstick, calls, rounds):
    """Return the best time of one in best times of the other, measured in turns."""
    best = [min(times) for times in zip(*(
        (spent(ours, calls), spent(yardstick, calls)) for _ in range(rounds)
    ), strict=True)]  # fmt: skip
    return best[0] / best[1]


def spent(function, calls):
    begun = time.thread_time_ns()
    for _ in range(calls):
        function()
    return time.thread_time_ns() - begun


if __name__ == "__main__":
    sys.exit(main())
