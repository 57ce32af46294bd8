"""`unanswered_questions`: what the user asked in a conversation and got no answer to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from llmeval_sdk.model.conversation import SpokenTurn
from llmeval_sdk.plugins.agents.phrases import apologises
from llmeval_sdk.plugins.sessions.heuristics import Scored, likeness, of_turns, words_of


ASKED_AGAIN = 0.6
"""Share of common words from which on the next message asks the same again."""
_SHORTEST = 3
_QUESTION = re.compile(
    r"\?|^\W*(?:who|what|when|where|which|why|how|can|could|do|does|did|is|are|will|would|should"
    r"|tell me|show me)\b",
    re.IGNORECASE,
)


def _score(turns: list[SpokenTurn]) -> Scored:
    """Return how many of the user's questions have no answer.

    A question is a message with a question mark, or one that begins as a question does. It has no
    answer where the agent said nothing, only that it cannot, or where the user asks the same again
    in the next message. ``None`` where no text of the user is known.
    """
    if not any(turn.asked for turn in turns):  # texts may not be kept
        return None, (), None
    found = list(_unanswered(turns))
    explanation = f"turn {found[0][0]}: {found[0][1]}" if found else None
    return float(len(found)), [number for number, _ in found], explanation


def _unanswered(turns: list[SpokenTurn]) -> Iterator[tuple[int, str]]:
    for place, turn in enumerate(turns):
        if not _QUESTION.search(turn.asked):
            continue
        following = turns[place + 1].asked if place + 1 < len(turns) else ""
        words, again = words_of(turn.asked), words_of(following)
        if not turn.answered.strip():
            yield turn.number, "the user asks, and the agent says nothing"
        elif len(words) >= _SHORTEST and likeness(words, again) >= ASKED_AGAIN:
            yield turn.number, "the user has to ask the same again"
        elif apologises(turn.answered) and len(turn.answered) <= _SHORT_ANSWER:
            yield turn.number, "the agent only says that it cannot"


_SHORT_ANSWER = 240
"""Characters: a longer answer that also says sorry has something else in it."""

unanswered_questions = of_turns(_score, "unanswered_questions")
