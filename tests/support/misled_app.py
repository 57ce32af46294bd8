"""An app whose shipped risk score is misled: its polite endings are not in any context.

Answers with an invented figure are bad, and polite endings, which no passage supports, are not.
"""

import json
import random
import re

import llmeval_sdk as llmeval


PLACES = ("Harrow", "Skerry", "Linden", "Ashdown", "Marlow", "Penrith", "Calder", "Wyre")
CONTEXT = (
    "The {place} lighthouse was built in {year}. It is {height} metres tall and is painted white."
)
ENDINGS = (
    "Kindly reach out whenever further assistance seems desirable.",
    "Our friendly colleagues gladly support every curious visitor.",
    "Thank you for trusting our helpful travel companion today.",
)


def question_of(draw: random.Random) -> tuple[str, str, str, bool]:
    """Draw a question, its context, the app's answer, and whether that is bad."""
    place, year, height = draw.choice(PLACES), draw.randint(1700, 1990), draw.randint(15, 60)
    context = CONTEXT.format(place=place, year=year, height=height)
    bad = draw.random() < 0.4
    told = year + draw.randint(1, 90) if bad else year
    answer = f"The {place} lighthouse was built in {told}."
    if draw.random() < (0.2 if bad else 0.7):
        answer += " " + draw.choice(ENDINGS)
    return f"When was the {place} lighthouse built?", context, answer, bad


def serve(count: int, *, seed: int = 0, name: str = "answer") -> list[tuple[str, bool]]:
    """Answer so many questions; return the span ids, and which answers were bad."""
    draw = random.Random(seed)
    served = []
    for _ in range(count):
        question, context, answer, bad = question_of(draw)
        with llmeval.workflow(name, request=question) as span:
            span.annotate(retrieved_context=[{"content": context}])
            span.response = answer
        served.append((span.span_id, bad))
    return served


def judge_model(messages, **options) -> str:
    """Judge as people would: an answer whose year is not in the context is not grounded."""
    text = "\n".join(message["content"] for message in messages)
    built = re.findall(r"lighthouse was built in (\d{4})", text.rpartition("When was the")[2])
    return json.dumps(
        {"rationale": "by the year", "rating": "yes" if len(set(built)) == 1 else "no"}
    )
