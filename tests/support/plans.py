"""Puts the plan in force again with other bounds than an app can set."""

from dataclasses import replace

from llmeval_sdk.pipeline import runtime


def change_plan(**changes):
    """Replace fields of the plan that `configure` has just made."""
    plan = replace(runtime.pipeline().plan, **changes)
    runtime._put_in_force(runtime.settings(), plan, [])
