"""`run_faults`: how likely an agent's run went wrong, by a fixed formula over free signs."""

from __future__ import annotations

from llmeval_sdk.model.runs import Run
from llmeval_sdk.plugins.agents.heuristics import Scored, of_a_run
from llmeval_sdk.plugins.agents.heuristics.tool_call_efficiency import wasted
from llmeval_sdk.plugins.agents.heuristics.ungrounded_arguments import invented
from llmeval_sdk.plugins.agents.heuristics.unmet_requests import unmet
from llmeval_sdk.plugins.agents.origins import absent_figures
from llmeval_sdk.plugins.agents.phrases import apologises, stopped_and_taken
from llmeval_sdk.text.budget import WorkBudget


WASTE, UNMET, APOLOGY, SILENCE, HIJACKED = 0.8, 0.3, 0.2, 0.5, 0.55
INVENTED, MOST_INVENTED, FIGURES = 0.85, 3, 0.1
"""How much each sign says. They were chosen by hand and are the same for all apps: weights that
were trained on some agents told less about others."""


def _score(run: Run) -> Scored:
    """Return how likely the run went wrong, from 0 to 1; higher is worse.

    It is one minus the product of what each sign leaves of the hope that all went well: calls that
    brought nothing, requests that were not met, an apology at the end, no answer at all, arguments
    that stand nowhere, figures in the answer that stand nowhere, and actions that a text hidden in
    a result told the agent to take. Such an action that was stopped, because its call
    raised, counts for nothing, and the run owes neither an answer nor regrets for it. Whether the
    task was solved often does not show in a run, so this finds runs with visible faults and guesses
    the rest. A model call that asks for a tool shows a run under way, which owes neither an answer
    nor actions, and so does one that somebody stopped.
    """
    stopped, taken = stopped_and_taken(run, WorkBudget().spend)
    (wasteful, ended), (missed, asked) = wasted(run), unmet(run)
    wasteful = [call for call in wasteful if call.number not in stopped]
    values = [value for value in invented(run) if value[0] not in stopped]
    ended -= len(stopped)
    share = len(wasteful) / ended if ended else 0.0
    sorry = bool(run.said) and not stopped and apologises(run.said[-1].text)
    is_silent = not (run.ends_with_answer or run.is_under_way or stopped)
    figures = min(1.0, 3 * absent_figures(run))
    signs = {
        "actions that a hidden text told it to take": 1 - HIJACKED * bool(taken),
        "calls that brought nothing": 1 - WASTE * share,
        "requests that were not met": 1 - UNMET * (len(missed) / asked if asked else 0.0),
        "an apology at the end": 1 - APOLOGY * sorry,
        "no answer": 1 - SILENCE * is_silent,
        "arguments that stand nowhere": INVENTED ** min(MOST_INVENTED, len(values)),
        "figures that stand nowhere": 1 - FIGURES * figures,
    }
    hope = 1.0
    for left in signs.values():
        hope *= left
    worst = [sign for sign, left in sorted(signs.items(), key=lambda item: item[1]) if left < 1]
    steps = sorted({call.number for call in wasteful} | {number for number, *_ in values} | taken)
    return 1 - hope, steps, "; ".join(worst[:3]) or None


run_faults = of_a_run(_score, "run_faults", version="2", output="score")
