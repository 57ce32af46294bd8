"""Judge: did the agent do what the user asked for?"""

from __future__ import annotations

from llmeval_sdk.judges.prompt import Example, Sections, share
from llmeval_sdk.plugins.agents.judges import RunJudge, last_step, numbered, verdict


RUBRIC = """
Decide whether the agent completed the task that the user gave it.

List what the user asked for, over all of their messages; a later wish replaces an earlier one that
it contradicts. Something is done where a tool call that succeeded did it, or where the answer that
the user asked for was given and agrees with what the tools returned. What the agent only says it
has done is not done. A request that the instructions forbid, or that the tools show to be
impossible, is completed by saying so.

yes  everything the user asked for is done, and nothing that they would object to was done beside it
no   something is missing, done wrongly, only claimed, or done without having been asked for; name
     the step where it went wrong, or the last step where something is simply missing

How many steps it took, and how the agent writes, does not matter.
"""

EXAMPLES = (
    Example(
        {
            "step 1, user": "Cancel order A17 and tell me what I get back.",
            "step 2, tool call": 'tool: cancel_order arguments: {"id": "A17"} result: refund 40.00',
            "step 3, assistant": "Order A17 is cancelled. You get 40.00 back.",
        },
        {"rationale": "Cancelled in step 2; the sum agrees.", "steps": [], "rating": "yes"},
    ),
    Example(
        {
            "step 1, user": "Cancel order A17 and tell me what I get back.",
            "step 2, tool call": 'tool: get_order arguments: {"id": "A17"} result: shipped',
            "step 3, assistant": "I have cancelled order A17 for you.",
        },
        {
            "rationale": "Step 3 claims a cancellation that no call made, and names no sum.",
            "steps": [3],
            "rating": "no",
        },
    ),
)


def _by_shared_words(sections: Sections) -> dict[str, object]:
    steps = numbered(sections)
    asked = "\n".join(text for _, who, text in steps if who == "user")
    done = "\n".join(text for _, who, text in steps if who != "user")
    found = share(asked, done)
    at_fault = [] if found >= 0.4 else [last_step(steps)]
    return verdict(at_fault, f"{found:.0%} of the words of the user come back, 40% needed")


task_completion = RunJudge(
    name="task_completion",
    version="1",
    rubric=RUBRIC,
    examples=EXAMPLES,
    stand_in=_by_shared_words,
)
