"""What is kept of one turn of a session, bounded in bytes, and how turns become a Record again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from llmeval_sdk.judges.prompt import shortened
from llmeval_sdk.model import Record, Step
from llmeval_sdk.model.chat import as_text, both_ends, question, to_text
from llmeval_sdk.model.conversation import SESSION
from llmeval_sdk.plugins.sessions.heuristics.turn_count import COUNTED


LONGEST_ID = 256
"""Characters of a session's id that are kept. Sessions are told apart by the whole of it."""
LONGEST_TEXT = 8_000
"""Characters of what the user or the agent said in one turn."""
LONGEST_RESULT = 2_000
"""Characters of the arguments, and of the result, of a tool call."""
MOST_CALLS = 40
"""The most tool calls of one turn that are kept; of more, the first and the last are."""


class KeptTurn(NamedTuple):
    """A turn on its way to the shelf."""

    key: bytes
    """The session, by a hash of its id."""
    session_id: str
    trace_id: str
    span_id: str
    span_name: str
    span_kind: str
    start_ns: int
    end_ns: int
    is_top: bool
    """Whether its span has none of this process above it."""
    text: str
    """The turn as JSON; empty where the span says neither what was asked nor what was answered."""
    user: str | None = None
    """The app's user, cut to `LONGEST_ID`; a hash where ids are hashed."""


def key_of(session_id: str) -> bytes:
    """Return what a session is known by, however long its id is."""
    return hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).digest()[:16]


def written(record: Record, *, content: bool) -> str:
    """Write what was asked, done and answered as JSON; ``""`` for a record that says nothing.

    ``m`` marks a bare model call: where one only asks for a tool, the answer comes with the next.
    The run of an agent that stops without an answer, to ask a person, is a turn of its own.
    """
    request = record.request
    asked = question(request) if request is not None else None
    if asked is None and request is not None:
        asked = as_text(request)
    if not asked and not record.response:
        return ""
    if not content:
        return json.dumps({"u": None, "a": None, "t": []})
    calls = [_call(step) for step in both_ends(_calls_of_turn(record.steps or ()), MOST_CALLS)]
    turn: dict[str, Any] = {
        "u": shortened(asked or "", LONGEST_TEXT),
        "a": shortened(record.response or "", LONGEST_TEXT),
        "t": calls,
    }
    if record.span_kind == "llm":
        turn["m"] = 1
    return json.dumps(turn, ensure_ascii=False).encode("utf-8", "replace").decode("utf-8")


def _calls_of_turn(steps: Sequence[Step]) -> list[Step]:
    """Return the tool calls since the user spoke last: messages hold those of former turns too."""
    spoke = max((place for place, step in enumerate(steps) if step.role == "user"), default=-1)
    return [step for step in steps[spoke + 1 :] if step.role == "tool"]


def _call(step: Step) -> list[Any]:
    texts = (to_text(value) for value in (step.arguments, step.result))
    arguments, result = (
        None if text is None else shortened(text, LONGEST_RESULT) for text in texts
    )
    error = None if step.error is None else step.error[:500]
    return [step.name, arguments, result, error, step.effect, step.start_ns, step.end_ns]


def joined(outer: str, inner: Iterable[str]) -> str:
    """Add the tool calls of turns that lie inside another one, where that has none of its own."""
    turn = json.loads(outer)
    if turn["t"]:
        return outer
    turn["t"] = [call for text in inner for call in json.loads(text)["t"]][:MOST_CALLS]
    return json.dumps(turn, ensure_ascii=False)


class StoredTurn(NamedTuple):
    """A turn as it stands on the shelf."""

    start_ns: int
    end_ns: int
    text: str


def record_of_session(
    turns: Sequence[StoredTurn], *, session_id: str, key: bytes, count: int, span_name: str
) -> Record:
    """Make the Record of a session: all of the conversation in its steps.

    A model call that only asked for a tool is one turn with the next call, which has its result.
    Its trace id is made of the session's id, so that sampling and escalation draw by session.
    """
    steps: list[Step] = []
    left_out = count - len(turns)
    response: str | None = None
    whole = [json.loads(text) for _, _, text in turns]
    for place, ((start, end, _), turn) in enumerate(zip(turns, whole, strict=True)):
        if left_out > 0 and place == min(FIRST_TURNS, len(turns) - 1):
            steps.append(Step("system", f"[{left_out} turns of this session are left out here]"))
        if (
            turn.get("m")
            and turn["a"] == ""
            and turn["t"]
            and place + 1 < len(whole)
            and (turn["u"] == whole[place + 1]["u"])
        ):
            count -= 1
            continue
        if turn["u"] != "":  # None where texts may not be kept
            steps.append(Step("user", turn["u"], start_ns=start, end_ns=start))
        steps += [_step(call) for call in turn["t"]]
        if turn["a"] != "":
            response = turn["a"]
            steps.append(Step("assistant", response, start_ns=end, end_ns=end))
    attributes: Mapping[str, Any] = {SESSION: session_id, COUNTED: count}
    seconds = (max(t.end_ns for t in turns) - turns[0].start_ns) / 1e9 if turns else None
    return Record(
        request=None,
        response=response,
        steps=tuple(steps) or None,
        attributes=attributes,
        latency_seconds=seconds,
        trace_id=key.hex(),
        span_name=span_name,
    )


FIRST_TURNS = 5
"""Turns at the beginning of a session that stay, however long it gets."""


def _step(call: Sequence[Any]) -> Step:
    name, arguments, result, error, effect, start, end = call
    with suppress(ValueError):  # it was cut, or was no JSON from the beginning
        arguments = json.loads(arguments) if arguments else {}
    return Step("tool", None, name, arguments, result, error, effect, start, end)
