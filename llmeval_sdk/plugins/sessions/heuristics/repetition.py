"""`repetition`: how much of a conversation the agent says again."""

from __future__ import annotations

from llmeval_sdk.model.conversation import SpokenTurn
from llmeval_sdk.plugins.sessions.heuristics import (
    MOST_LOOKED_BACK,
    Scored,
    likeness,
    of_turns,
    words_of,
)


ALIKE = 0.85
"""Share of common words from which on two answers say the same."""
FEWEST_WORDS = 5
"""Words that an answer needs for its repetition to mean anything: not "You are welcome."."""


def _score(turns: list[SpokenTurn]) -> Scored:
    """Return the share of the agent's answers that say the same as an earlier one, 0 to 1.

    Two answers say the same where they have at least 85 % of their words in common. Answers of
    fewer than five different words count for nothing.
    """
    answers = [(turn.number, words_of(turn.answered)) for turn in turns]
    answers = [(number, words) for number, words in answers if len(words) >= FEWEST_WORDS]
    if not answers:
        return None, (), None
    repeated: list[tuple[int, int]] = []
    for place, (number, words) in enumerate(answers):
        for earlier, others in reversed(answers[max(0, place - MOST_LOOKED_BACK) : place]):
            if likeness(words, others) >= ALIKE:
                repeated.append((number, earlier))
                break
    explanation = None
    if repeated:
        explanation = f"turn {repeated[0][0]}: the agent says what it said in turn {repeated[0][1]}"
    return len(repeated) / len(answers), [number for number, _ in repeated], explanation


repetition = of_turns(_score, "repetition", output="score")
