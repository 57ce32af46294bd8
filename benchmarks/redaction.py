"""Print what it costs to see that a text has no secret, beside writing the same text as JSON.

JSON is the yardstick because every exporter writes it: what takes a share of that time is lost in
it. Both are measured alternately in one process, so that a slow machine changes no ratio.
"""

import base64
import json
import random
import string
import sys
import time
from pydoc_data import topics

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
LOOK_BARS = {"English documentation": 6.0, "plain words": 2.0, "base64": 4.0}
"""The look at 1 MB that has no secret, in times of writing it as JSON."""
DENSE_BAR = 50.0
"""Redacting 1 MB in which names and addresses abound, in times of writing it as JSON."""


def main():
    assert not may_have_secrets(CLEAN)
    ratio = beside(lambda: may_have_secrets(CLEAN), lambda: json.dumps(CALL), 200, 50)
    print("| what | times its JSON | bar |\n| --- | --- | --- |")
    print(f"| a clean record of 2 KB | {ratio:.2f} | < {RECORD_BAR:g} |")
    cleared = ratio < RECORD_BAR
    for name, text in large_texts().items():
        bar = LOOK_BARS[name]
        ratio = beside(
            lambda text=text: may_have_secrets(text), lambda text=text: json.dumps(text), 1, 5
        )
        print(f"| a look at 1 MB of {name} | {ratio:.2f} | < {bar:g} |")
        cleared = cleared and ratio < bar
    for piece in DENSE:
        text = piece * (1_000_000 // len(piece))
        dense = beside(
            lambda text=text: Redactor(("api_key", "jwt")).detect(text),
            lambda text=text: json.dumps(text), 1, 5,
        )  # fmt: skip
        print(f"| 1 MB of {piece!r} | {dense:.1f} | < {DENSE_BAR:g} |")
        cleared = cleared and dense < DENSE_BAR
    return 0 if cleared else 1


def large_texts():
    """Return a megabyte of each kind of text."""
    chance = random.Random(3)
    words = ["".join(chance.choices(string.ascii_lowercase, k=2 + n % 9)) for n in range(5_000)]
    manual = "\n".join(topics.topics.values())
    return {
        "English documentation": (manual * 2)[:1_000_000],
        "plain words": " ".join(chance.choices(words, k=200_000))[:1_000_000],
        "base64": base64.b64encode(chance.randbytes(750_000)).decode(),
    }


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
