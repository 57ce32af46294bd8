"""Puts a plan in force that differs from the one in force, for bounds that no setting has."""

from dataclasses import replace

from llmeval_sdk.pipeline import runtime


def change_plan(**changes):
    """Replace fields of the plan in force, such as ``queue_records``."""
    runtime._put_plan_in_force(runtime.settings(), replace(runtime.pipeline().plan, **changes), [])
