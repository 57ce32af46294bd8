"""`duplicate_tool_calls`: tool calls that repeat an earlier one although nothing changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from llmeval_sdk.model.runs import Run, ToolCall
from llmeval_sdk.plugins.agents.heuristics import Scored, at, counted, live, of_a_run
from llmeval_sdk.plugins.agents.live import LiveRun, Repeats


def _score(run: Run) -> Scored:
    """Return how many tool calls repeat an earlier one, with the same tool and arguments.

    A repetition is none where another tool changed something in between, since asking again can
    then bring something else. A call that has no result yet is not counted.
    """
    return counted(_told(_repetitions(run)))


def _repetitions(run: Run) -> Iterator[tuple[ToolCall, int]]:
    repeats = Repeats()
    told = {call.number for call in run.calls}
    for call in run.settled:
        earlier = repeats.earlier(call.signature)
        if earlier is not None and call.number in told:
            yield call, earlier
        repeats.add(call)


def _told(repetitions: Iterable[tuple[ToolCall, int]]) -> Iterator[tuple[int, str]]:
    for call, earlier in repetitions:
        yield call.number, at(call.number, call.signature.tool, f"was called as at step {earlier}")


def _live_score(run: LiveRun, pending: ToolCall | None) -> Scored:
    repeated = run.repeated(pending)
    explanation = next(iter(_told(repeated[-1:])), (0, None))[1]  # the latest is news
    return float(len(repeated)), [call.number for call, _ in repeated[-1:]], explanation


duplicate_tool_calls = of_a_run(
    _score, "duplicate_tool_calls", live=live(_live_score, "duplicate_tool_calls")
)
