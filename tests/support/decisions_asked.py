"""Typed questions about one record, and what a server answers them."""

from llmeval_sdk.model import Option, Question


WIRES = ("openai", "systemone", "logprobs")
KEY = "dk-marker-9f2c"
DATA = {
    "request": "When does the ferry leave?",
    "chunk 1": "The ferry leaves the east pier at 08:40.",
    "response": "The ferry leaves at 08:40.",
}
YES_NO = Question(
    "groundedness",
    "yes_no",
    'Do the chunks support the response? This is about "chunk 1", "response".',
    (Option("yes", "all of it is supported"), Option("no", "some of it is not")),
)
CHOICE = Question(
    "tone",
    "choice",
    "Which tone has the response?",
    (Option("friendly"), Option("neutral", "matter of fact"), Option("rude", "it insults")),
)
SCORE = Question(
    "helpful",
    "score",
    "How helpful is the response?",
    (Option("useless"), Option("of some use", "answers in part"), Option("helpful")),
)
QUESTIONS = (YES_NO, CHOICE, SCORE)
CHANCES = {
    "groundedness": {"yes": 0.8, "no": 0.2},
    "tone": {"friendly": 0.125, "neutral": 0.75, "rude": 0.125},
    "helpful": {"useless": 0.0, "of some use": 0.25, "helpful": 0.75},
}


def by_name(data, question):
    """Answer the questions above, and any other with yes by three quarters.

    On the chat wire, an option's value comes with its description.
    """
    chances = CHANCES.get(question.name, {"yes": 0.75, "no": 0.25}).values()
    values = [option.value for option in question.options] or ["yes", "no"]
    return dict(zip(values, chances, strict=True))


def yes_no(*names):
    """Make yes/no questions of some names."""
    return [Question(name, "yes_no", f"Is it {name}?") for name in names]


def numbers(decision):
    """Return the probabilities of each answer, rounded, or its error's type."""
    return {
        name: {value: round(chance, 6) for value, chance in answer.probabilities.items()}
        or answer.error.type
        for name, answer in decision.answers.items()
    }
