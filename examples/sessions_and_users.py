"""Who asked what: requests by user and session, their cost and time, and all of a user deleted.

The ids are personal data. With a key, only their hashes leave the process, and the commands still
take the plain ones.
"""

import os
import sys
import tempfile
from pathlib import Path

import llmeval_sdk as llmeval
from llmeval_sdk.cli import main


os.environ["LLMEVAL_HASH_IDS"] = "a key that every host has"  # noqa: TID251 - stands for your shell
os.environ["LLMEVAL_STORE"] = str(Path(tempfile.mkdtemp()) / "llmeval.db")  # noqa: TID251


@llmeval.workflow
def answer(question: str) -> str:
    return "Slate." if "roof" in question else "Brick."


CHATS = {
    ("anna", "chat-1"): ("What is the roof made of?", "And the walls?"),
    ("anna", "chat-2"): ("Is the roof old?",),
    ("ben", "chat-3"): ("What are the walls made of?",),
}
llmeval.configure(exporters=["local"])
for (user, session), questions in CHATS.items():
    with llmeval.annotation_context(user_id=user, session_id=session):
        for question in questions:
            answer(question)
llmeval.flush(timeout=10)

codes = [
    main(["report", "--by", "user"]),
    main(["traces", "--user", "anna"]),
    main(["traces", "--user", "anna", "--session", "chat-2", "--json"]),
    main(["prune", "--user", "anna", "--dry-run"]),
    main(["prune", "--user", "anna"]),
    main(["report", "--by", "session"]),
]
sys.exit(max(codes))
