"""`run_faults`: how likely an agent's run went wrong, by a fixed formula over free signs."""

from __future__ import annotations

from llmeval_sdk.agents.actions import apologises
from llmeval_sdk.agents.origins import absent_figures
from llmeval_sdk.agents.run import Run
from llmeval_sdk.heuristics.agent._outcome import Scored, of_a_run
from llmeval_sdk.heuristics.agent.tool_call_efficiency import wasted
from llmeval_sdk.heuristics.agent.ungrounded_arguments import invented
from llmeval_sdk.heuristics.agent.unmet_requests import unmet


WASTE, UNMET, APOLOGY, SILENCE = 0.8, 0.3, 0.2, 0.5
INVENTED, MOST_INVENTED, FIGURES = 0.85, 3, 0.1
"""How much each sign says. They were chosen by hand and are the same for all apps: weights that
were trained on some agents told less about others."""


def _score(run: Run) -> Scored:
    """Return how likely the run went wrong, from 0 to 1; higher is worse.

    It is one minus the product of what each sign leaves of the hope that all went well: calls that
    brought nothing, requests that were not met, an apology at the end, no answer at all, arguments
    that stand nowhere, and figures in the answer that stand nowhere. Whether the task was solved
    often does not show in a run, so this finds runs with visible faults and guesses the rest. A
    model call that asks for a tool shows a run under way, which owes neither an answer nor actions,
    and so does one that somebody stopped.
    """
    (wasteful, ended), (missed, asked), values = wasted(run), unmet(run), invented(run)
    share = len(wasteful) / ended if ended else 0.0
    sorry = bool(run.said) and apologises(run.said[-1].text)
    figures = min(1.0, 3 * absent_figures(run))
    signs = {
        "calls that brought nothing": 1 - WASTE * share,
        "requests that were not met": 1 - UNMET * (len(missed) / asked if asked else 0.0),
        "an apology at the end": 1 - APOLOGY * sorry,
        "no answer": 1 - SILENCE * (not run.ends_with_answer and not run.is_under_way),
        "arguments that stand nowhere": INVENTED ** min(MOST_INVENTED, len(values)),
        "figures that stand nowhere": 1 - FIGURES * figures,
    }
    hope = 1.0
    for left in signs.values():
        hope *= left
    worst = [sign for sign, left in sorted(signs.items(), key=lambda item: item[1]) if left < 1]
    steps = sorted({call.number for call in wasteful} | {number for number, *_ in values})
    return 1 - hope, steps, "; ".join(worst[:3]) or None


run_faults = of_a_run(_score, "run_faults", output="score")
