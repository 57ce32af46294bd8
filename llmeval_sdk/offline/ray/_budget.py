"""One budget for all workers of a run: in a file of one machine, or in Redis for several."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from llmeval_sdk.config.shared import SharedSettings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.offline.run._work import Work
from llmeval_sdk.policy.keeper import BudgetKeeper
from llmeval_sdk.policy.shared.host import Host
from llmeval_sdk.policy.shared.keeper import SharedKeeper
from llmeval_sdk.policy.shared.link import RedisLink
from llmeval_sdk.policy.unlimited import Unlimited
from llmeval_sdk.store.files import make_folder
from llmeval_sdk.store.ledger import HostLedger


if TYPE_CHECKING:
    from llmeval_sdk.offline.ray._block import Task


LOCK_SECONDS = 30.0


def check_budget(work: Work, machines: int) -> None:
    """Refuse a budget that the workers could not share.

    Raises:
        ConfigurationError: there are several machines, and no Redis between them.
    """
    if work.budget is not None and machines > 1 and not is_shared(work):
        raise ConfigurationError(
            f"the cluster has {machines} machines, and a budget holds on one: set LLMEVAL_SHARED "
            "to a Redis that all of them reach, or pass no budget (--max-usd, --calls-per-minute)"
        )


def is_shared(work: Work) -> bool:
    """Return whether the settings of this process name a Redis for what hosts share."""
    return work.settings.of(SharedSettings).shared is not None


def keeper_of(work: Work, task: Task) -> BudgetKeeper:
    """Return what keeps the budget of the whole run in this worker.

    Raises:
        ConfigurationError: this worker does not know the Redis through which the budget is shared.
    """
    if work.budget is None:
        return Unlimited()
    books = _books_of(task)
    make_folder(books.parent)
    ledger = HostLedger(books, timeout=LOCK_SECONDS)
    keeper = BudgetKeeper(work.budget, ledger)
    if not task.shared:
        return keeper
    address = work.settings.of(SharedSettings).shared
    if address is None:
        raise ConfigurationError(
            "LLMEVAL_SHARED is set for the driver and not for this worker: give all machines the "
            "same environment"
        )
    return SharedKeeper.instead_of(
        keeper,
        host=Host(HostLedger(Path(task.store).with_suffix(".shared"), timeout=LOCK_SECONDS)),
        link=RedisLink(address),
        name=f"run.{task.run_id}",
        longest=work.settings.judge_timeout + 5.0,
    )


def forget_budget(task: Task) -> None:
    """Remove the books of a run that has ended; one that is to be resumed needs them."""
    books = _books_of(task)
    for path in (books, *books.parent.glob(f"{books.name}-*")):  # SQLite's own files
        path.unlink(missing_ok=True)


def _books_of(task: Task) -> Path:
    return Path(task.store).with_name(f"run-{task.run_id}.budget")
