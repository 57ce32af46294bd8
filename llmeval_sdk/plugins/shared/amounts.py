"""What an account of the budget of all hosts holds, and how much of it a budget allows."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from llmeval_sdk.evaluation.books import MINUTE, Want
from llmeval_sdk.evaluation.budget import Budget


AMOUNTS = ("calls", "tokens", "usd", "slots")
"""The kinds of amounts in an account. ``usd`` counts millionths of a dollar, ``slots`` counts calls
that are under way at the same time."""

MICROS = 1_000_000

Amounts = dict[str, float]
Need = Mapping[str, Amounts]
"""Amounts by account."""
Limits = Mapping[str, Mapping[str, Any]]
"""The most of each amount, by account; ``None`` is no limit. Calls count for ``window`` seconds."""


def limits_of(
    budget: Budget, concurrency: int | None, apart: Mapping[str, Budget] | None = None
) -> Limits:
    """Return the limits of a budget by account. The account ``""`` is that of all judges together.

    The accounts that are ``apart`` have limits of their own, and none on calls at a time.
    """
    others = {**budget.judges, **(apart or {})}
    limits = {name: limits_of_account(own) for name, own in others.items()}
    return {"": {**limits_of_account(budget), "slots": concurrency}, **limits}


def limits_of_account(budget: Budget) -> dict[str, Any]:
    """Return the most of each amount that a budget allows its account."""
    calls, tokens = budget.calls_per_minute, budget.tokens_per_minute
    slow = calls is not None and 0 < calls < 1
    if tokens is None and budget.usd_per_day is not None:
        tokens = budget.unpriced_tokens_per_minute
    return {
        "calls": None if calls is None else 1 if slow else int(calls),
        "window": MINUTE / calls if calls and slow else MINUTE,
        "tokens": None if tokens is None else int(tokens),
        "usd": None if budget.usd_per_day is None else int(budget.usd_per_day * MICROS),
        "slots": None,
    }


def need_of(limits: Mapping[str, Budget], want: Want, *, slots: bool) -> Need:
    """Return what a reservation takes of each account whose limits it is held to."""
    calls, tokens, usd = want.calls or 0, want.tokens or 0, want.usd
    need: dict[str, Amounts] = {}
    for name, budget in limits.items():
        most = limits_of_account(budget)
        amounts: Amounts = {}
        if most["calls"] is not None:
            amounts["calls"] = calls
        if budget.tokens_per_minute is not None:
            amounts["tokens"] = tokens
        elif most["tokens"] is not None and usd is None:  # see `books`: it takes a minute at most
            amounts["tokens"] = min(tokens, most["tokens"] or tokens)
        if most["usd"] is not None and usd is not None:
            amounts["usd"] = micros(usd)
        if slots and not name:
            amounts["slots"] = 1
        need[name] = amounts
    return need


def micros(usd: float | None) -> int:
    """Return an amount of money in millionths of a dollar, rounded up."""
    return ceil((usd or 0.0) * MICROS)
