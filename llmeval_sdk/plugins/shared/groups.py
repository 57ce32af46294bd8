"""The accounts of groups in the budget of all hosts: Redis says which there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.groups import MAX_GROUPS, OTHERS, group_of, is_about
from llmeval_sdk.plugins.shared.amounts import limits_of_account


class SharedGroups:
    """Knows the account of each group.

    Where a budget for each group has `MAX_GROUPS` accounts that were used since yesterday, Redis
    says which. They stay the same until midnight, so that from then on no other group has to be
    asked about, however many there are.

    Args:
        budgets: Those of groups.
        names: Whether Redis may see tags and their values; otherwise it sees hashes of them.
    """

    def __init__(self, budgets: Sequence[Budget], *, names: bool = True) -> None:
        self._sent = _plain if names else _hashed
        self._budgets = {self._sent(budget.account_prefix): budget for budget in budgets}
        self._limits = {prefix: _limits(prefix, own) for prefix, own in self._budgets.items()}
        self._longest_first = sorted(self._budgets, key=len, reverse=True)
        self._taken: dict[str, frozenset[str]] = {}
        self._day = -1

    def of(self, tags: Mapping[str, str]) -> dict[str, Budget]:
        """Return the limits by account that a request with these tags has."""
        limits: dict[str, Budget] = {}
        for prefix, budget in self._budgets.items():
            if not is_about(budget.tests, tags):
                continue
            account = prefix
            if budget.per is not None:
                account += self._sent(group_of(budget.per, tags))
                taken = self._taken.get(prefix)
                if taken is not None and account not in taken:
                    account = f"{prefix}{OTHERS}"
            limits[account] = budget
        return limits

    def limits(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the limits of each budget of groups, by the prefix of its accounts' names."""
        return self._limits

    def limits_at(self, account: str) -> Mapping[str, Any] | None:
        """Return the limits of an account; ``None`` where it belongs to no group."""
        return self._limits.get(self.prefix_of(account))

    def prefix_of(self, account: str) -> str:
        """Return the prefix that an account shares with all of its budget; empty if it has none."""
        fits = (prefix for prefix in self._longest_first if account.startswith(prefix))
        return next(fits, "")

    def take_in(self, taken: Mapping[str, Iterable[str]], day: int) -> None:
        """Take in the accounts of budgets that have no further ones on this day."""
        if day != self._day:
            self.forget()
            self._day = day
        self._taken.update({prefix: frozenset(names) for prefix, names in taken.items()})

    def forget(self) -> None:
        """Know nothing, as at the beginning."""
        self._taken.clear()


def _limits(prefix: str, budget: Budget) -> dict[str, Any]:
    pooled = {"most": MAX_GROUPS, "pool": f"{prefix}{OTHERS}"} if budget.per else {}
    return {**limits_of_account(budget), **pooled}


def _plain(name: str) -> str:
    """Return a name that JSON and Redis can hold, without halves of surrogate pairs."""
    return name.encode("utf-8", "replace").decode("utf-8")


def _hashed(name: str) -> str:
    return blake2b(name.encode("utf-8", "replace"), digest_size=8).hexdigest()
