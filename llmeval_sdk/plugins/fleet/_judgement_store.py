"""The judgements of a fleet in Redis: each is asked once, claimed by one worker, settled once.

Every change is one Lua script, so nobody ever sees half of it. Times are those of Redis, because
the clocks of hosts differ. The account is kept by the same scripts, so that at any moment

    asked = judged + refused{reason} + waiting

where the judgements that wait are counted by themselves, in a sorted set. It outlives the keys of
judgements, which expire, so what is in it was counted as asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from llmeval_sdk.plugins.shared.redis_client import KEYS


if TYPE_CHECKING:
    from redis import Redis


EXPIRY_SECONDS = 21_600.0
"""A judgement that no worker has begun by then is refused as `expired`. A verdict is remembered as
long, so that a message that comes twice is paid for once."""
QUEUE = "judgements"
"""The name of Celery's queue; its key has the prefix, as all keys of Celery's transport have."""
QUEUE_KEY = f"{KEYS}{QUEUE}"
JUDGEMENT = f"{KEYS}judgement."
"""Begins the key of each judgement's state."""
MESSAGE = f"{KEYS}message."
"""The prefix of the keys that hold copies of messages that no worker has answered yet."""
OPEN = f"{KEYS}open"
"""The judgements that have no outcome yet, by the time at which they were asked for."""
DEAD = f"{KEYS}dead"
"""The list of what stood in the queue and was no message: the newest entries, cut short."""
ACCOUNT = f"{KEYS}account"
WORKERS = f"{KEYS}workers"
RESULTS = f"{KEYS}results."
"""Begins the key of the outcomes that return to a host."""
READER = f"{KEYS}reader."
"""Begins the key that says which process of a host reads them."""
TYPES = {
    QUEUE_KEY: "list",
    f"{KEYS}unacked": "hash",
    f"{KEYS}unacked_index": "zset",
    f"{KEYS}unacked_mutex": "string",
    f"{KEYS}_kombu.binding.{QUEUE}": "set",
    OPEN: "zset",
    DEAD: "list",
    ACCOUNT: "hash",
    WORKERS: "hash",
}
"""The types of the keys that all workers share, those of Celery's transport among them."""


def wrong_types(redis: Redis) -> list[str]:
    """Return a sentence for each key that holds something of another type, and so serves nobody.

    Raises an error of the library where Redis does not answer.
    """
    pipe = redis.pipeline(transaction=False)
    for key in TYPES:
        pipe.type(key)
    found = [kind.decode() for kind in pipe.execute()]
    return [
        f"{key} is a {kind}, and a fleet keeps a {TYPES[key]} there: somebody else wrote it. "
        f"Delete it: redis-cli DEL {key}"
        for key, kind in zip(TYPES, found, strict=True)
        if kind not in ("none", TYPES[key])
    ]


def trouble(error: Exception, redis: Redis | None) -> str:
    """Say what an error of the library means: which keys are wrong, or else the error itself."""
    wrong = []
    if type(error).__name__ == "ResponseError":
        with suppress(Exception):  # it is away by now
            wrong = [] if redis is None else wrong_types(redis)
    return ("; ".join(wrong) or f"{type(error).__name__}: {error}")[:500]


MAX_MESSAGES = 50_000
"""Messages that may wait in the queue; a host keeps further ones as if Redis were away."""
MAX_RESULTS = 20_000
"""Outcomes that may wait for one host."""
MAX_TRIES = 3
"""Claims after which a judgement is given up: workers seem to die of it."""
HOLD_SECONDS = 60.0
"""How long whoever settled a judgement has until exporters have it; then others emit it."""
MAX_APART_SECONDS = 60.0
"""By how much the clock of a host may differ from that of Redis."""
MAX_SWEPT = 500
MAX_DEAD, MAX_DEAD_BYTES = 100, 2_000
"""How many entries the dead list keeps, and how many bytes of each."""

_NOW = "local t = redis.call('TIME'); local now = t[1] * 1000 + math.floor(t[2] / 1000)\n"

_PUT = f"""{_NOW}
if redis.call('LLEN', KEYS[1]) >= tonumber(ARGV[3]) then return -1 end
local new, asked = 0, 0
for id in string.gmatch(ARGV[4], '%S+') do
  local key = '{JUDGEMENT}' .. id
  if redis.call('HSETNX', key, 'asked', now) == 1 then
    new = new + 1
    redis.call('PEXPIRE', key, ARGV[2])
    if ARGV[5] ~= '' then redis.call('HSET', key, 'message', ARGV[5]) end
    asked = asked + redis.call('ZADD', KEYS[2], now, id)
  end
end
if new > 0 then
  redis.call('HINCRBY', KEYS[3], 'asked', asked)
  redis.call('LPUSH', KEYS[1], ARGV[1])
  if ARGV[5] ~= '' then redis.call('SET', '{MESSAGE}' .. ARGV[5], ARGV[1], 'PX', ARGV[2]) end
end
return new
"""

_CLAIM = f"""{_NOW}
local known = redis.call('HMGET', KEYS[1], 'asked', 'until', 'owner', 'tries', 'outcome', 'sent')
local is_held = known[2] and tonumber(known[2]) > now and known[3] ~= ARGV[2]
if known[5] and (known[6] or known[5] == '' or not is_held) then
  return {{'settled', known[5], known[6] or ''}}
end
if is_held then return {{'held', tostring(tonumber(known[2]) - now), ''}} end
local asked = known[1] or redis.call('ZSCORE', KEYS[2], ARGV[1])
local sent, apart = tonumber(ARGV[7] or now), tonumber(ARGV[8] or 0)
if not asked and (sent + tonumber(ARGV[4]) - apart < now or sent - apart > now) then
  return {{'replayed', '', ''}}
end
if not known[1] then redis.call('HSET', KEYS[1], 'asked', asked or now) end
if not asked then
  redis.call('ZADD', KEYS[2], now, ARGV[1])
  redis.call('HINCRBY', KEYS[3], 'asked', 1)
end
redis.call('HSET', KEYS[1], 'owner', ARGV[2], 'until', now + tonumber(ARGV[3]))
redis.call('PEXPIRE', KEYS[1], ARGV[5])
if asked and tonumber(asked) + tonumber(ARGV[4]) < now then return {{'expired', '', ''}} end
if tonumber(known[4] or '0') >= tonumber(ARGV[6]) then return {{'lost', '', ''}} end
redis.call('HINCRBY', KEYS[1], 'tries', 1)
return {{'claimed', '', ''}}
"""

_SETTLE = f"""{_NOW}
local first = redis.call('HGET', KEYS[1], 'outcome')
if first then return first end
local was_open = redis.call('ZREM', KEYS[2], ARGV[1])
if redis.call('HSETNX', KEYS[1], 'asked', now) == 1 and was_open == 0 then
  redis.call('HINCRBY', KEYS[3], 'asked', 1)
end
redis.call('HSET', KEYS[1], 'outcome', ARGV[2])
redis.call('HDEL', KEYS[1], 'until', 'owner')
if ARGV[6] ~= '' then redis.call('HSET', KEYS[1], 'owner', ARGV[6], 'until', now + ARGV[7]) end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('HINCRBY', KEYS[3], ARGV[3], 1)
if KEYS[4] then
  if redis.call('LLEN', KEYS[4]) < tonumber(ARGV[5]) then
    redis.call('RPUSH', KEYS[4], ARGV[2])
    redis.call('PEXPIRE', KEYS[4], ARGV[4])
  else
    redis.call('HINCRBY', KEYS[3], 'unreturned', 1)
  end
end
return false
"""

_SWEEP = f"""{_NOW}
local swept = 0
local before = now - tonumber(ARGV[1])
local old = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', before, 'LIMIT', 0, tonumber(ARGV[2]))
for _, id in ipairs(old) do
  local key = '{JUDGEMENT}' .. id
  local held = redis.call('HGET', key, 'until')
  if not held or tonumber(held) < now then
    redis.call('HSET', key, 'outcome', '', 'asked', now)
    redis.call('PEXPIRE', key, ARGV[1])
    redis.call('ZREM', KEYS[1], id)
    redis.call('HINCRBY', KEYS[2], 'refused:expired', 1)
    swept = swept + 1
  end
end
return swept
"""


# A copy is queued when nothing else is, and once in the time after which a message counts as lost.
_QUEUE_AGAIN = f"""{_NOW}
if redis.call('LLEN', KEYS[2]) > 0 then return 0 end
local queued = 0
local before = now - tonumber(ARGV[1])
local old = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', before, 'LIMIT', 0, tonumber(ARGV[2]))
for _, id in ipairs(old) do
  local known = redis.call('HMGET', '{JUDGEMENT}' .. id, 'message', 'until')
  local is_held = known[2] and tonumber(known[2]) > now
  local copy = known[1] and not is_held and redis.call('GET', '{MESSAGE}' .. known[1])
  if copy and redis.call('SET', '{MESSAGE}' .. known[1] .. '.again', 1, 'NX', 'PX', ARGV[1]) then
    redis.call('LPUSH', KEYS[2], copy)
    queued = queued + 1
  end
end
return queued
"""


class Claim(NamedTuple):
    """What became of an attempt to claim a judgement."""

    state: str
    """``claimed``: it is this worker's to make; ``expired`` and ``lost``: it is this worker's to
    refuse; ``held``: another one makes it, or emits it; ``settled``: it has an outcome;
    ``replayed``: nothing is known of it, and the time of its message is too old, or to come."""
    outcome: bytes = b""
    """The outcome that it has; empty where it was swept away."""
    is_sent: bool = False
    """Whether that outcome has reached the exporters."""
    seconds: float = 0.0
    """How long another worker may hold it."""


class FleetAccount(NamedTuple):
    """The fleet's own account."""

    asked: int
    judged: int
    refused: Mapping[str, int]
    waiting: int
    messages: Mapping[str, int]
    """Messages that were refused whole, by reason: nobody can say which judgements they held."""
    unreturned: int
    """Outcomes for which a host's list had no room."""
    queued: int
    """Messages in the queue."""
    dead: int = 0
    """Entries of the dead list."""

    @property
    def is_balanced(self) -> bool:
        """Say whether each judgement that was asked for is accounted for."""
        return self.asked == self.judged + sum(self.refused.values()) + self.waiting


class JudgementStore:
    """Changes and reads the judgements.

    Args:
        redis: a client; see `connect`.
        expiry: seconds for which a judgement may wait, and for which its outcome is remembered.
    """

    def __init__(self, redis: Redis, *, expiry: float = EXPIRY_SECONDS) -> None:
        self._redis = redis
        self._expiry = int(expiry * 1000)
        self._put = redis.register_script(_PUT)
        self._claim = redis.register_script(_CLAIM)
        self._settle = redis.register_script(_SETTLE)
        self._sweep = redis.register_script(_SWEEP)
        self._queue_again = redis.register_script(_QUEUE_AGAIN)

    def put(
        self,
        envelope: bytes | str,
        ids: Sequence[str],
        *,
        name: str = "",
        most: int = MAX_MESSAGES,
    ) -> int:
        """Note judgements as asked for and queue their message, both or neither.

        A copy is kept under ``name``, if it has one, until `forget_message`.

        A message whose judgements are all known already is not queued again, so that whoever is
        not sure of having put it may put it again.

        Returns:
            How many of them are new; -1 where the queue is full.
        """
        new: int = self._put(
            keys=[QUEUE_KEY, OPEN, ACCOUNT],
            args=[envelope, 2 * self._expiry, most, " ".join(ids), name],
        )
        return new

    def claim(
        self, judgement: str, owner: str, *, seconds: float, sent: float | None = None
    ) -> Claim:
        """Claim a judgement for so many seconds, by the end of which its calls must have ended.

        Args:
            judgement: its id.
            owner: who claims it.
            seconds: for how long.
            sent: when its message was signed; ``None``: just now. An outcome is remembered for the
                expiry, so an older message of which nothing is known was answered before.
        """
        times = [] if sent is None else [int(sent * 1000), int(MAX_APART_SECONDS * 1000)]
        state, text, sent = self._claim(
            keys=[JUDGEMENT + judgement, OPEN, ACCOUNT],
            args=[
                judgement, owner, int(seconds * 1000), self._expiry, 2 * self._expiry, MAX_TRIES,
                *times,
            ],
        )  # fmt: skip
        if state == b"held":
            return Claim("held", seconds=float(text) / 1000)
        return Claim(state.decode(), text, bool(sent))

    def settle(
        self, judgement: str, outcome: str, *, field: str, host: str | None = None, owner: str = ""
    ) -> bytes | None:
        """Note the outcome of a judgement, unless it has one; return the one that it has.

        Args:
            judgement: its id.
            outcome: what came of it, as text.
            field: where the account counts it: ``judged`` or ``refused:<reason>``.
            host: the host to which the outcome returns; ``None`` where it stays here.
            owner: who emits it here, and so holds it until `note_sent`, or for `HOLD_SECONDS`.
        """
        keys = [JUDGEMENT + judgement, OPEN, ACCOUNT, *([RESULTS + host] if host else [])]
        first: bytes | None = self._settle(
            keys=keys,
            args=[
                judgement, outcome, field, self._expiry, MAX_RESULTS, owner,
                int(HOLD_SECONDS * 1000),
            ],
        )  # fmt: skip
        return first

    def note_sent(self, judgements: Sequence[str]) -> None:
        """Note that the outcomes of judgements have reached the exporters."""
        pipe = self._redis.pipeline(transaction=False)
        for judgement in judgements:
            pipe.hset(JUDGEMENT + judgement, "sent", 1)
            pipe.pexpire(JUDGEMENT + judgement, self._expiry)
        pipe.execute()

    def refuse_message(self, reason: str, entry: bytes = b"") -> None:
        """Count a message that cannot be read, and keep the beginning of its entry for a while."""
        pipe = self._redis.pipeline(transaction=True)
        pipe.hincrby(ACCOUNT, f"message:{reason}", 1)
        if entry:
            pipe.lpush(DEAD, entry[:MAX_DEAD_BYTES])
            pipe.ltrim(DEAD, 0, MAX_DEAD - 1)
            pipe.pexpire(DEAD, self._expiry)
        pipe.execute()

    def sweep(self) -> int:
        """Refuse judgements that have waited too long: their message may have got lost."""
        swept: int = self._sweep(keys=[OPEN, ACCOUNT], args=[self._expiry, MAX_SWEPT])
        return swept

    def forget_message(self, name: str) -> None:
        """Forget the copy of a message whose judgements all have an outcome."""
        self._redis.delete(MESSAGE + name)

    def queue_again(self, after: float) -> int:
        """Queue copies of messages that got lost; return how many.

        Celery's transport takes a message out of the queue before it notes who has it. Where the
        worker or Redis is killed in between, nobody has it any more.

        Args:
            after: seconds after which a judgement that nobody holds, of which no message is in the
                queue, can only be one of a lost message.
        """
        queued: int = self._queue_again(keys=[OPEN, QUEUE_KEY], args=[int(after * 1000), MAX_SWEPT])
        return queued

    def account(self) -> FleetAccount:
        """Read the account at one moment."""
        pipe = self._redis.pipeline(transaction=True)
        pipe.hgetall(ACCOUNT)
        pipe.zcard(OPEN)
        pipe.llen(QUEUE_KEY)
        pipe.llen(DEAD)
        fields, waiting, queued, dead = pipe.execute()
        counts = {
            name.decode("utf-8", "replace"): int(number)
            for name, number in fields.items()
            if number.lstrip(b"-").isdigit()
        }
        return FleetAccount(
            counts.get("asked", 0),
            counts.get("judged", 0),
            _below("refused:", counts),
            waiting,
            _below("message:", counts),
            counts.get("unreturned", 0),
            queued,
            dead,
        )


def _below(prefix: str, counts: Mapping[str, int]) -> dict[str, int]:
    return {name[len(prefix) :]: n for name, n in counts.items() if name.startswith(prefix)}
