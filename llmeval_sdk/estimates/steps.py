"""Which step of a funnel a reason kept a record from."""

from __future__ import annotations

from llmeval_sdk.estimates.funnels import FAILED, NOT_BUDGETED, NOT_ELIGIBLE, NOT_SELECTED


def step_of(reason: str) -> str | None:
    """Name the step of the funnel that a reason kept a record from; ``None`` for ``cached``."""
    return _STEP_OF.get(reason, "run")


_STEP_OF: dict[str, str | None] = {
    "cached": None,
    **dict.fromkeys(NOT_ELIGIBLE, "eligible"),
    **dict.fromkeys(NOT_SELECTED, "selected"),
    **dict.fromkeys(NOT_BUDGETED, "budgeted"),
    **dict.fromkeys(FAILED, "scored"),
}
