"""Names the step of the funnel at which a judgement that was not made was lost."""

from __future__ import annotations

from llmeval_sdk.estimates.funnels import FAILED, NOT_BUDGETED, NOT_ELIGIBLE, NOT_SELECTED


def step_of(reason: str) -> str | None:
    """Return the first step that a record with this reason missed; ``None`` for ``cached``."""
    return _STEP_OF.get(reason, "run")


_STEP_OF: dict[str, str | None] = {
    "cached": None,
    **dict.fromkeys(NOT_ELIGIBLE, "eligible"),
    **dict.fromkeys(NOT_SELECTED, "selected"),
    **dict.fromkeys(NOT_BUDGETED, "budgeted"),
    **dict.fromkeys(FAILED, "scored"),
}
