"""What a worker says of itself when it starts, and what `llmeval doctor --fleet` finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter, time
from typing import Any

from llmeval_sdk import registry
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.models import NoModel
from llmeval_sdk.plugins.fleet._judgement_store import (
    DEAD,
    MAX_APART_SECONDS,
    JudgementStore,
    trouble,
)
from llmeval_sdk.plugins.fleet._message import READS, VERSION, fingerprint
from llmeval_sdk.plugins.fleet.serving import GONE_SECONDS, WorkerInfo, present_workers, redis_time
from llmeval_sdk.plugins.fleet.settings import FleetSettings, check
from llmeval_sdk.plugins.shared.redis_client import connect, is_redis_error
from llmeval_sdk.process.distribution import release


Finding = tuple[bool | None, str, str]
"""Whether something is well (``None``: neither well nor broken), what it is, and a sentence."""

MESSAGES = {
    "forged": "were not signed with this key: some app or worker has another LLMEVAL_FLEET_KEY",
    "too_large": "were larger than any message of ours",
    "replayed": "were signed more than six hours before: somebody plays old ones again",
    "unreadable": "were none of ours: somebody else writes to this queue",
}
REFUSED = {
    "unknown_judge": "name a judge that the workers do not have: configure it with --app",
    "unknown_version": "were written by a newer release: renew the workers before the apps",
    "unreadable": "could not be read",
    "expired": "waited longer than six hours: start more workers",
    "worker_lost": "were given up after workers had ended at them again and again",
}
"""What to say of judgements that no judge has refused; the other reasons are those of `NotRun`."""


def described(settings: Settings, plan: Any, *, name: str, pool: str, slots: int) -> dict[str, Any]:
    """Return the fields by which a worker says what it is and what it can judge."""
    key = settings.of(FleetSettings).fleet_key
    assert key is not None
    own = [each.name for each in registry.own_evaluators() if each.kind == "judge"]
    judges = dict.fromkeys(
        (*(judge.name for judge in plan.judges), *own, *registry.installed(registry.judges()))
    )
    model, problems = _model(plan)
    return {
        "name": name, "release": release(), "messages": sorted(READS), "judges": list(judges),
        "key": fingerprint(key), "pool": pool, "slots": slots, "model": model,
        "exporters": [exporter.name for exporter in plan.exporters], "problems": problems,
    }  # fmt: skip


def _model(plan: Any) -> tuple[str, list[str]]:
    """Return the judge model of a worker, and why it cannot be asked."""
    try:
        model = plan.llm()
    except (ConfigurationError, ImportError) as error:
        return "", [f"the judge model cannot be asked: {error}"]
    if model is None or isinstance(model, NoModel):
        return "", ["no judge model is configured: set LLMEVAL_JUDGE_MODEL on the worker"]
    return str(getattr(model, "model", "") or type(model).__name__), []


def findings(settings: Settings, *, offline: bool = False) -> Iterator[Finding]:
    """Check the queue, the workers, their versions, keys, judges and clocks, and the account.

    Args:
        settings: those of an app or a worker.
        offline: is of no account: whoever asks for this section wants the queue to be asked.
    """
    own = settings.of(FleetSettings)
    judges = [name for name in settings.evaluators if name not in registry.heuristics()]
    try:
        check(settings)
    except ConfigurationError as error:
        yield False, "LLMEVAL_JUDGE_QUEUE", str(error)
        return
    assert own.judge_queue is not None
    assert own.fleet_key is not None
    redis = connect(own.judge_queue)
    begun = perf_counter()
    try:
        at = redis_time(redis)
        about = redis.info()
        present = present_workers(redis)
        account = JudgementStore(redis).account()
    except Exception as error:
        if not is_redis_error(error):
            raise
        yield False, own.judge_queue.place, f"cannot be used: {trouble(error, redis)}"
        return
    milliseconds = (perf_counter() - begun) * 1000
    words = f"Redis {about.get('redis_version')} answers in {milliseconds:.0f} ms"
    yield True, own.judge_queue.place, words
    yield from _durability(about)
    yield from _clock("clock of this host", time() - at)
    alive = [worker for worker in present if at - worker.at < GONE_SECONDS]
    for worker in present:
        yield from _worker(worker, at, fingerprint(own.fleet_key))
    if not alive:
        yield False, "workers", "none is there: start one with `llmeval fleet`"
    else:
        yield from _judges(judges, alive)
    refused = sum(account.refused.values())
    sums = f"asked {account.asked:,} = judged {account.judged:,} + refused {refused:,} + waiting "
    sums += f"{account.waiting:,}; {account.queued:,} messages in the queue"
    yield account.is_balanced, "account", sums
    for reason, times in account.refused.items():
        yield None, f"refused, {reason}", f"{times:,} {REFUSED.get(reason, 'as judges count it')}"
    for reason, times in account.messages.items():
        yield False, f"messages, {reason}", f"{times:,} {MESSAGES.get(reason, 'were refused')}"
    if account.dead:
        words = f"{account.dead:,} entries of the queue are kept, cut short: LRANGE {DEAD} 0 -1"
        yield None, "dead list", words
    if account.unreturned:
        words = f"{account.unreturned:,} found no room in the list of a host that reads none"
        yield False, "verdicts that did not return", words


def _durability(about: Any) -> Iterator[Finding]:
    if not about.get("aof_enabled"):
        words = "off: what waits here is lost when Redis ends; set appendonly yes"
        yield None, "appendonly", words
    policy = about.get("maxmemory_policy", "noeviction")
    if about.get("maxmemory") and policy != "noeviction":
        yield False, "maxmemory-policy", f"{policy} drops judgements: set noeviction"


def _clock(whose: str, ahead: float) -> Iterator[Finding]:
    if abs(ahead) > MAX_APART_SECONDS:
        words = f"{abs(ahead) / 60:.1f} minutes {'ahead of' if ahead > 0 else 'behind'} that of "
        words += "Redis. Judgements expire by that of Redis, but spans and messages that come "
        words += "back go by it: let both hosts ask a time server"
        yield False, whose, words


def _worker(worker: WorkerInfo, at: float, key: str) -> Iterator[Finding]:
    subject = f"worker {worker.name}"
    if at - worker.at >= GONE_SECONDS:
        yield None, subject, f"has said nothing for {at - worker.at:.0f} s: it ended, or is cut off"
        return
    words = f"{worker.pool}, {worker.slots} messages at a time, model {worker.model or 'none'}, "
    yield True, subject, words + f"exporters {', '.join(worker.exporters)}"
    if VERSION not in worker.messages:
        words = f"reads messages {list(worker.messages)}, and this release writes {VERSION}"
        yield False, subject, f"{words}: renew the workers before the apps"
    elif worker.release != release():
        words = f"has llmeval-inprocess {worker.release}, and here is {release()}"
        yield None, subject, f"{words}; it reads the messages of this release"
    if worker.key != key:
        words = "has another LLMEVAL_FLEET_KEY: it refuses what is signed here as forged"
        yield False, subject, words
    for problem in worker.problems:
        yield False, subject, problem
    yield from _clock(f"clock of {worker.name}", worker.ahead)


def _judges(names: Sequence[str], alive: Sequence[WorkerInfo]) -> Iterator[Finding]:
    for name in names:
        lacking = [
            worker.name
            for worker in alive
            if name not in (*worker.judges, *registry.table("library_judges"))
            and name.partition(":")[0] not in registry.table("families")
        ]
        if lacking:
            words = f"unknown to {', '.join(lacking)}: its judgements are refused there"
            yield False, f"judge {name}", f"{words}; configure it with `llmeval fleet --app`"
        else:
            yield True, f"judge {name}", "known to all workers"
