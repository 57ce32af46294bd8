"""Finds where the turn begins that a Record is about, among the steps of a whole chat.

What stands before it is history: a chat sends its former turns along with each new one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from llmeval_sdk.model import Record, Step
from llmeval_sdk.model.chat import MAX_QUESTION, bounded_question, messages_of, results_at_end
from llmeval_sdk.model.runs.calls import values_of


_MOST_TEXTS = 20
"""Texts among the arguments of an agent that may be its question."""
_MOST_READ = 20_000
"""Characters of a message in which a question is looked for."""
_RESULT = re.compile(
    r"\s*(?:observations?|tool[ _](?:results?|outputs?|responses?)|function[ _]results?)\s*:"
    r"|\s*<(?:tool|function)_\w+>|\s*<(?:observation|system-reminder)>",
    re.IGNORECASE,
)
"""How a message begins that an app wrote in the user's name: a result of a tool, or a reminder."""


def begin_of_turn(steps: Sequence[Step], record: Record) -> int:
    """Return the number of the step with which the turn of a Record begins; 1 where all is one.

    That is the last message of the user's that ends with what was asked, or, inside of a prompt,
    contains it. Where none does, as for an agent without arguments, it is the user's last message.
    One that comes right after a tool call is in the middle of the run, such as a reminder beside a
    result, and begins no turn unless it ends with what was asked.
    """
    questions = tuple(_questions(record))
    for number in range(len(steps), 0, -1):
        step = steps[number - 1]
        if step.role == "user" and questions:
            text = (step.content or "").strip()[-_MOST_READ:]
            if text.endswith(questions):
                return number
            if any(words in text for words in questions) and not _is_mid_run(steps, number):
                return number
    return 1 if record.request is None and record.span_kind is None else _last_spoken(steps)


def _questions(record: Record) -> Iterator[str]:
    """Yield the texts of a request of which one is the question."""
    question = bounded_question(record.request).strip()
    if question:
        yield question
    else:
        yield from _texts_given(record.request)


def given(request: Any) -> str:
    """Return the texts and numbers that an agent was called with, where none is its question.

    They are in lower case, with a line for each; ``""`` for a request that is a text or a chat.
    """
    if bounded_question(request).strip() or not isinstance(request, dict):
        return ""
    plain = (value for _, value in values_of(request) if isinstance(value, (int, float)))
    return "\n".join((*_texts_given(request), *map(str, plain))).lower()


def new_results(record: Record) -> int | None:
    """Return how many results of tools a model call was the first to be asked with.

    They stand in its messages after the last one of the model's. ``None`` for a Record that is not
    of a model call, or whose messages are not known.
    """
    if record.span_kind != "llm":
        return None
    messages = messages_of(record.request)
    return None if messages is None else results_at_end(messages)


def _texts_given(request: Any) -> Iterator[str]:
    values = values_of(request) if isinstance(request, dict) else ()
    texts = (value[-MAX_QUESTION:].strip() for _, value in values if isinstance(value, str))
    yield from islice((text for text in texts if text), _MOST_TEXTS)


def _last_spoken(steps: Sequence[Step]) -> int:
    """Return where the user spoke last, with the first of several messages in a row."""
    begins = 1
    was_user = False
    for number, step in enumerate(steps, 1):
        if step.role == "user":
            if not was_user and not _is_mid_run(steps, number):
                begins = number
            was_user = True
        elif step.role != "system":
            was_user = False
    return begins


def _is_mid_run(steps: Sequence[Step], number: int) -> bool:
    """Say whether a message in the user's name belongs to what the agent was doing."""
    if _RESULT.match((steps[number - 1].content or "")[:200]):
        return True
    for place in range(number - 2, -1, -1):
        if steps[place].role not in ("user", "system"):
            return steps[place].role == "tool"
    return False
