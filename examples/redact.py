"""Take secrets and personal data out of everything that leaves the app.

Keys are found by default. Detectors of personal data are switched on by name, and a function of
your own has the last word; where it fails, the field is closed, not open.
"""

import llmeval_sdk as llmeval
from llmeval_sdk.exporters import memory


CUSTOMERS = ("Ada Lovelace", "Alan Turing")


def without_names(text: str) -> str:
    for name in CUSTOMERS:
        text = text.replace(name, "<customer>")
    return text


@llmeval.workflow
def answer(question: str, api_key: str) -> str:
    return f"Dear Ada Lovelace, we wrote to ada@example.com. You asked: {question}"


llmeval.configure(
    exporters=["memory"], redact=without_names, evaluators=[], heuristics="background"
)
print("the app sees:    ", answer("Is 4111 1111 1111 1111 my card?", api_key="hunter2"))
llmeval.flush()
print("exporters see:   ", memory.spans()[-1].response)

llmeval.configure(exporters=["memory"], redact=["api_key", "jwt", "email", "card"])
answer("Is 4111 1111 1111 1111 my card?", api_key="hunter2")
llmeval.flush()
print("with detectors:  ", memory.spans()[-1].response)
print("and the question:", memory.spans()[-1].request)
