"""What came of a judgement, as the text that is kept and returned under its id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llmeval_sdk.config import Secret
from llmeval_sdk.fleet._message import is_signed, signature
from llmeval_sdk.fleet._wire import UnreadableError, items_as_plain, items_of, parsed, written
from llmeval_sdk.model import EvaluationEvent, NotRun


_SIGNATURE = 64


@dataclass(frozen=True, slots=True)
class JudgementOutcome:
    """What a judgement emits: the verdict or why there is none, and the trace of its run."""

    id: str
    items: list[Any]

    @property
    def field(self) -> str:
        """Where the account counts it: ``judged``, or ``refused:`` and the reason."""
        for item in self.items:
            if type(item) is EvaluationEvent and item.evaluation.error is None:
                return "judged"
        reasons = [item.reason for item in self.items if type(item) is NotRun]
        return f"refused:{reasons[0] if reasons else 'error'}"

    def text(self, key: Secret) -> str:
        """Write it, signed."""
        body = written({"v": 1, "id": self.id, "items": items_as_plain(self.items)})
        return f"{signature(body, key)}{body}"


def outcome_of(text: bytes, key: Secret) -> JudgementOutcome:
    """Read an outcome; raises `UnreadableError` where it is none, or is not signed with the key."""
    try:
        whole = text.decode()
    except UnicodeDecodeError:
        raise UnreadableError("no text") from None
    body = whole[_SIGNATURE:]
    if not is_signed(body, whole[:_SIGNATURE], key):
        raise UnreadableError("its signature is not that of LLMEVAL_FLEET_KEY")
    fields = parsed(body)
    if type(fields) is not dict or fields.get("v") != 1 or not isinstance(fields.get("id"), str):
        raise UnreadableError("its version is unknown")
    return JudgementOutcome(fields["id"], items_of(fields.get("items")))
