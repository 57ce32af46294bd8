"""The books of a budget: pure arithmetic on a small text that any ledger can keep.

There is one account for all judges, and one for each judge that has limits of its own. An account
holds the calls and tokens of each second and the money spent today. A minute counts every second
that it touches, even in part, so that no 60 seconds ever hold a call too many; capacity therefore
returns up to one second late.

A reservation counts in full until it is settled. Its calls leave the minute as time passes, and its
money is freed when its hold ends, so a process that dies in between blocks nothing for ever.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.groups import MAX_GROUPS, OTHERS
from llmeval_sdk.model import DAY_SECONDS


MINUTE = 60.0
_CENT_DUST = 1e-9


class Want(NamedTuple):
    """An amount of calls, tokens and money; ``None`` means that it is unknown."""

    calls: int | None
    tokens: int | None
    usd: float | None


@dataclass(frozen=True, slots=True)
class Reservation:
    """Use that was granted and has not been settled."""

    id: int
    accounts: tuple[str, ...]
    at: float
    """Seconds since the epoch, from which on its calls, tokens and money count."""
    until: float
    calls: int
    tokens: int
    usd: float
    counted: Any = None
    """What it holds in the budget of all hosts, where they share one; see `limiter.Counted`."""


@dataclass(frozen=True, slots=True)
class Used:
    """What an account has used: calls and tokens in the last minute, money in this UTC day."""

    calls: int
    tokens: int
    usd: float
    reserved_usd: float


@dataclass(slots=True)
class Account:
    """The state of one account."""

    seconds: dict[int, list[int]] = field(default_factory=dict)
    """Calls and tokens by second since the epoch."""
    day: int = 0
    usd: float = 0.0

    def within(self, seconds: float, now: float) -> list[tuple[int, int, int]]:
        """Return second, calls and tokens of what may lie in the window, oldest first."""
        return sorted(
            (second, calls, tokens)
            for second, (calls, tokens) in self.seconds.items()
            if second + 1 > now - seconds and second < now + MINUTE
        )

    def is_idle(self, now: float) -> bool:
        """Say whether nothing was used today or yesterday: that only changes at midnight."""
        latest = max(self.day, max(self.seconds, default=0) // DAY_SECONDS)
        return latest < now // DAY_SECONDS - 1


@dataclass(slots=True)
class BookState:
    """The content of the books."""

    accounts: dict[str, Account] = field(default_factory=dict)
    open: dict[int, tuple[float, int, float, tuple[str, ...]]] = field(default_factory=dict)
    """Open reservations by id: when the hold ends, the day, the money and the accounts."""
    next: int = 1

    def reserved(self, account: str, now: float) -> float:
        """Return the money that is reserved today and not settled."""
        return sum(
            usd
            for until, day, usd, accounts in self.open.values()
            if account in accounts and day == now // DAY_SECONDS and now < until
        )

    def spent(self, account: str, now: float) -> float:
        """Return the money that was settled today."""
        found = self.accounts.get(account)
        return found.usd if found is not None and found.day == now // DAY_SECONDS else 0.0


def load(text: str) -> BookState:
    """Read the books; an empty text stands for new ones. Raises `ValueError` for any other text."""
    if not text:
        return BookState()
    try:
        raw = json.loads(text)
        accounts = {
            name: Account({int(second): use for second, use in seconds.items()}, day, usd)
            for name, (seconds, day, usd) in raw["accounts"].items()
        }
        held = {int(key): (*rest, tuple(names)) for key, (*rest, names) in raw["open"].items()}
        return BookState(accounts, held, raw["next"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"unreadable budget books: {error!r}") from None


def dump(state: BookState) -> str:
    """Return the books as text."""
    raw: dict[str, object] = {
        "accounts": {
            name: (account.seconds, account.day, account.usd)
            for name, account in state.accounts.items()
        },
        "open": state.open,
        "next": state.next,
    }
    return json.dumps(raw, separators=(",", ":"))


def refusal(
    state: BookState, limits: Mapping[str, Budget], want: Want, now: float
) -> Refused | None:
    """Return why an amount cannot be granted, or ``None`` if it can."""
    for name, limit in limits.items():
        account = state.accounts.get(name) or Account()
        found = (
            _calls(account, limit.calls_per_minute, want.calls or 0, now)
            or _tokens(account, limit.tokens_per_minute, want.tokens or 0, now)
            or _unpriced(account, limit, want, now)
            or _money(
                state.spent(name, now), state.reserved(name, now), limit.usd_per_day, want.usd, now
            )
        )
        if found is not None:
            detail, retry_after = found
            return Refused("over_budget", f"{name or 'all judges'}: {detail}", retry_after)
    return None


def limits_of_groups(
    state: BookState, groups: Sequence[Budget], tags: Mapping[str, str], now: float
) -> dict[str, Budget]:
    """Return the limits by account that a request with these tags has beside those of its judge.

    A budget for each group has `MAX_GROUPS` accounts that were used since yesterday; requests of
    further groups share one. Accounts that nobody used since then make way.
    """
    limits: dict[str, Budget] = {}
    for budget in groups:
        name = budget.account_of(tags)
        if name is None:
            continue
        if budget.per is not None and not _make_room(state, budget.account_prefix, name, now):
            name = f"{budget.account_prefix}{OTHERS}"
        limits[name] = budget
    return limits


def _make_room(state: BookState, prefix: str, name: str, now: float) -> bool:
    """Remove idle accounts where a group finds no room; say whether it has, or may get, its own.

    The accounts of all groups of its budget begin with ``prefix``.
    """
    if name in state.accounts:
        return True
    own = [account for account in state.accounts if account.startswith(prefix)]
    for account in own if len(own) >= MAX_GROUPS else ():
        if state.accounts[account].is_idle(now) and not state.reserved(account, now):
            del state.accounts[account]
    return sum(account in state.accounts for account in own) < MAX_GROUPS


def reserve(
    state: BookState, limits: Mapping[str, Budget], want: Want, now: float, *, hold: float
) -> Reservation:
    """Record that an amount was granted; call `refusal` and `prune` first."""
    made = Reservation(
        state.next, tuple(limits), now, now + hold, want.calls or 0, want.tokens or 0, want.usd or 0
    )
    state.next += 1
    state.open[made.id] = (made.until, int(now // DAY_SECONDS), made.usd, made.accounts)
    for name in made.accounts:
        use = state.accounts.setdefault(name, Account()).seconds.setdefault(int(now), [0, 0])
        use[0] += made.calls
        use[1] += made.tokens
    return made


def settle(state: BookState, made: Reservation, actual: Want, now: float) -> None:
    """Replace a reservation by what was used, at the second and day of the reservation."""
    held = state.open.pop(made.id, None)
    if held is None and now < made.until:
        return  # it was settled before
    calls = made.calls if actual.calls is None else actual.calls
    tokens = made.tokens if actual.tokens is None else actual.tokens
    usd = made.usd if actual.usd is None else actual.usd
    day = int(made.at // DAY_SECONDS)
    for name in made.accounts:
        account = state.accounts.setdefault(name, Account())
        use = account.seconds.get(int(made.at))
        if use is not None:
            use[0] = max(use[0] + calls - made.calls, 0)
            use[1] = max(use[1] + tokens - made.tokens, 0)
        if day > account.day or account.day > now // DAY_SECONDS:
            account.day, account.usd = day, 0.0
        if day == account.day:
            account.usd += usd


def used(state: BookState, now: float, *, name: str = "", seconds: float = MINUTE) -> Used:
    """Return what an account used: calls and tokens of the last ``seconds``, money of the day."""
    recent = (state.accounts.get(name) or Account()).within(seconds, now)
    return Used(
        sum(calls for _, calls, _ in recent),
        sum(tokens for _, _, tokens in recent),
        state.spent(name, now),
        state.reserved(name, now),
    )


_Found = tuple[str, float | None] | None


def _calls(account: Account, limit: float | None, want: int, now: float) -> _Found:
    if limit is None or want == 0:
        return None
    slow = 0 < limit < 1
    most, window = (1, MINUTE / limit) if slow else (int(limit), MINUTE)
    recent = [(second, calls) for second, calls, _ in account.within(window, now)]
    wait = room(recent, most, want, window, now)
    return None if wait == 0 else (f"{limit:g} calls a minute are used up", wait)


def _tokens(account: Account, limit: float | None, want: int, now: float) -> _Found:
    if limit is None or want == 0:
        return None
    recent = [(second, tokens) for second, _, tokens in account.within(MINUTE, now)]
    wait = room(recent, limit, want, MINUTE, now)
    return None if wait == 0 else (f"{want} tokens do not fit in {limit:g} a minute", wait)


def _unpriced(account: Account, limit: Budget, want: Want, now: float) -> _Found:
    """Limit tokens of unknown price, because a limit in dollars cannot."""
    most = limit.unpriced_tokens_per_minute
    if want.usd is not None or limit.usd_per_day is None or limit.tokens_per_minute is not None:
        return None
    tokens = want.tokens or 0
    found = _tokens(account, most, min(tokens, int(most)) if most else tokens, now)
    if found is None:
        return None
    detail, wait = found
    return f"{detail} while the model's price is unknown: set LLMEVAL_PRICES", wait


def room(
    recent: list[tuple[int, int]], most: float, want: int, window: float, now: float
) -> float | None:
    """Return how many seconds it takes until ``want`` fits under a limit on a sliding window.

    It is 0 if there is room now, and ``None`` if ``want`` is more than the limit itself.

    Args:
        recent: pairs of a second (since the epoch) and what was used in it, the oldest first.
        most: the limit.
        want: how much is to be used.
        window: the length of the window, in seconds.
        now: the time, in seconds since the epoch.
    """
    if want > most:
        return None
    excess = sum(amount for _, amount in recent) + want - most
    wait = 0.0
    for second, amount in recent:
        if excess <= 0:
            break
        excess -= amount
        wait = second + 1 + window - now
    return wait


def _money(
    spent: float, reserved: float, limit: float | None, want: float | None, now: float
) -> _Found:
    if limit is None:
        return None
    if want is None:
        return None if limit > 0 else ("the price is unknown and USD 0 a day are allowed", None)
    if want <= 0 or spent + reserved + want <= limit + _CENT_DUST:
        return None
    detail = (
        f"USD {want:.4f} do not fit in {limit:g} a day ({spent:.4f} spent, {reserved:.4f} reserved)"
    )
    return detail, None if want > limit else DAY_SECONDS - now % DAY_SECONDS


def prune(state: BookState, limits: Mapping[str, Budget], now: float) -> None:
    """Remove what no longer counts."""
    for name, limit in limits.items():
        account = state.accounts.get(name)
        if account is not None:
            slowest = min(limit.calls_per_minute or 1, 1)
            keep = {second for second, _, _ in account.within(MINUTE / slowest, now)}
            account.seconds = {s: use for s, use in account.seconds.items() if s in keep}
    state.open = {key: held for key, held in state.open.items() if now < held[0]}
