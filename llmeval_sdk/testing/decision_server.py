"""A server of decisions on the loopback interface, for tests and demos without a model.

It speaks every wire over real HTTP: OpenAI's decisions, System One, and chat completions with
logprobs. By default it answers by rules on shared words; this is the stand-in, and the model's name
in every reply says so. For tests it can do to a client whatever a server in production may do::

    with DecisionServer(script=["rate_limited", "good"]) as server:
        model = HttpDecisions("systemone/any", base_url=server.base_url)

``python -m llmeval_sdk.testing.decision_server`` serves the stand-in until it is interrupted, and
answers judges as `JudgeServer` does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, ClassVar

from llmeval_sdk.testing._behaviours import ServedAnswer, error
from llmeval_sdk.testing._decision_behaviours import (
    Decide,
    Fault,
    faulty_answer,
    stand_in_decision,
)
from llmeval_sdk.testing._decision_wires import DecisionRequest, decision_request
from llmeval_sdk.testing.judge_server import JudgeServer, ReceivedRequest, main


__all__ = ["Decide", "DecisionServer", "Fault", "stand_in_decision"]


class DecisionServer(JudgeServer):
    """Serves decisions beside what `JudgeServer` serves, while it is entered.

    Which wire a request is on is seen from its body, as three of them share a path:
    ``/v1/decisions``, ``/v1/systemone``, ``/v1/chat/completions`` with ``logprobs``. Below
    ``/v1/ai/run/`` the answers of System One come in Cloudflare's envelope.

    Args:
        decide: Decides the probabilities of a good answer; the stand-in by default.
        script: How the first requests are answered, one entry each: a `Fault` or a function as
            ``decide``.
        default: How the requests after the script are answered.
        most_tokens: If given, a request that is longer is refused; four characters are a token.
        most_questions: If given, a request with more questions is refused.
        options: Further options of `JudgeServer`: ``delay``, ``retry_after``, ``key``, ``port`` …
    """

    stands_in_for: ClassVar[str] = "decision model"

    def __init__(
        self,
        decide: Decide = stand_in_decision,
        *,
        script: Iterable[Fault | Decide] = (),
        default: Fault = "good",
        most_tokens: int | None = None,
        most_questions: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(script=script, default=default, **options)  # type: ignore[arg-type]
        self.decide = decide
        self.most_tokens = most_tokens
        self.most_questions = most_questions

    @property
    def decisions(self) -> list[ReceivedRequest]:
        """The requests for decisions, in the order in which they came."""
        return [request for request in list(self.requests) if _decision(request) is not None]

    def reply(self, request: ReceivedRequest) -> ServedAnswer:
        """Decide what one request gets."""
        decision = _decision(request)
        if decision is None:
            return super().reply(request)
        answer = self.refused(request) or self._too_much(decision) or self._scripted(decision)
        if "/ai/run/" in request.path and answer.status == 200:
            envelope = {"result": json.loads(answer.body), "success": True, "errors": []}
            return ServedAnswer(200, json.dumps(envelope).encode())
        return answer

    def _scripted(self, request: DecisionRequest) -> ServedAnswer:
        entry: Any = self.script.popleft() if self.script else self.default
        decide, fault = (entry, "good") if callable(entry) else (self.decide, entry)
        return faulty_answer(fault, request, decide, self.retry_after)

    def _too_much(self, request: DecisionRequest) -> ServedAnswer | None:
        if self.most_tokens is not None and request.characters() // 4 > self.most_tokens:
            return faulty_answer("too_long", request, self.decide, self.retry_after)
        if self.most_questions is not None and len(request.questions) > self.most_questions:
            return error(400, f"At most {self.most_questions} questions.", "too_many_questions")
        return None


def _decision(request: ReceivedRequest) -> DecisionRequest | None:
    last = request.path.rpartition("/")[2]
    is_here = last in ("decisions", "systemone", "completions") or "/ai/run/" in request.path
    return decision_request(request.body) if is_here else None


if __name__ == "__main__":
    main(server_class=DecisionServer)
