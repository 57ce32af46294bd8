"""`tool_call_loop`: how long an agent went round in circles."""

from __future__ import annotations

from collections.abc import Sequence

from llmeval_sdk.model.runs import Run, ToolCall
from llmeval_sdk.plugins.agents.heuristics import MOST_SHOWN, Scored, live, of_a_run
from llmeval_sdk.plugins.agents.live import Circle, Circles, LiveRun


def _score(run: Run) -> Scored:
    """Return the length, in calls, of the longest stretch that repeats the calls before it.

    A circle has one to four calls, such as A A, or A B A B. 0 means that there is none. A call that
    has no result yet is not counted.
    """
    circles = Circles()
    calls = run.settled
    for call in calls:
        circles.add(call.signature)
    circle = circles.longest
    is_news = circle.length > 0 and any(call is calls[circle.end] for call in run.calls)
    return _told(circle if is_news else Circle(), calls)


def _live_score(run: LiveRun, pending: ToolCall | None) -> Scored:
    circle = run.circle(pending)
    calls = run.calls if pending is None or not circle.length else [*run.calls, pending]
    return _told(circle, calls)


def _told(circle: Circle, calls: Sequence[ToolCall]) -> Scored:
    if not circle.length:
        return 0.0, (), None
    first, last = circle.end - circle.length + 1, circle.end + 1
    steps = [call.number for call in calls[first : min(last, first + MOST_SHOWN)]]
    again = calls[last - circle.period : last]
    names = ", ".join((call.step.name or "a tool")[:80] for call in again)
    explanation = f"step {steps[0]}: from here on, {circle.length} calls repeat those before"
    return float(circle.length), steps, f"{explanation} ({names})"


tool_call_loop = of_a_run(_score, "tool_call_loop", live=live(_live_score, "tool_call_loop"))
