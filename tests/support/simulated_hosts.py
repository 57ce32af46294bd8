"""Limiters of several hosts that talk to a real Redis when a test says so, by a clock of the test."""

from redis.exceptions import ConnectionError as LostError

from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.limiter import MemoryLedger
from llmeval_sdk.plugins.shared import limiter as limiter_module
from llmeval_sdk.plugins.shared.limiter import Host, SharedLimiter
from llmeval_sdk.plugins.shared.redis_client import RedisThread
from llmeval_sdk.plugins.shared.settings import RedisAddress


OPTIONS = {"lease": 5.0, "rebuild": 10.0, "longest": 4.0}


class ByHand(RedisThread):
    """Talks to Redis when the test says so, and has no thread."""

    is_away = True

    def start(self):
        pass

    def wake(self):
        pass


class Wire:
    """A client whose requests may be lost, late, or without an answer."""

    def __init__(self, client, chance, clock):
        self.client, self.chance, self.clock = client, chance, clock
        self.late = []

    def register_script(self, text):
        run = self.client.register_script(text)

        def call(keys, args, client):
            def send():
                return run(
                    keys=keys,
                    args=[*args, str(int(self.clock.now)), f"{self.clock.now % 1 * 1e6:06.0f}"],
                )

            fate = self.chance.random()
            if fate < 0.05:
                raise LostError("lost")
            if fate < 0.1:
                self.late.append(send)
                raise LostError("late")
            answer = send()
            if fate < 0.15:
                raise LostError("no answer")
            while self.late:
                self.late.pop()()
            return answer

        return call


class Clock:
    def __init__(self, now):
        self.now = now


def simulated(monkeypatch, now):
    """Return the clock by which the script and the limiters go."""
    clock = Clock(now)
    text = limiter_module.script().replace("redis.call('TIME')", "{ARGV[2], ARGV[3]}")
    monkeypatch.setattr(limiter_module, "script", lambda: text)
    monkeypatch.setattr(limiter_module, "elapsed", lambda: clock.now - 7_000)
    return clock


class Lucky:
    """Loses nothing."""

    def random(self):
        return 1.0


class SimulatedHosts:
    """Hosts, each with books of its own, that share one Redis.

    Args:
        redis: The server; see `redis_fixtures`.
        clock: What `simulated` returned.
        budget: Of all hosts.
        chance: Decides which requests are lost; none are by default.
    """

    def __init__(self, redis, clock, budget, *, chance=None, **options):
        self.redis, self.clock, self.budget = redis, clock, budget
        self.wire = Wire(redis.client(), chance or Lucky(), clock)
        self.exchanges = 0
        self._options = {**OPTIONS, **options}
        self._files = {}

    def process(self, host):
        """Return the limiter of a new process of a host."""
        books, memory = self._files.setdefault(host, (MemoryLedger(), MemoryLedger()))
        return SharedLimiter(
            self.budget,
            books,
            host=Host(memory, clock=lambda: self.clock.now),
            link=ByHand(RedisAddress(self.redis.address)),
            **self._options,
        )

    def exchange(self, limiter):
        """Let a process talk to Redis once."""
        self.exchanges += 1
        limiter.exchange(self.wire)

    def ask(self, limiter, tenant=None, *, judge="j", **wanted):
        """Reserve something for a tenant, after an exchange where that is needed."""
        tags = {} if tenant is None else {"tenant": tenant}
        got = limiter.reserve(judge, tags=tags, **wanted)
        if isinstance(got, Refused):
            self.exchange(limiter)
            got = limiter.reserve(judge, tags=tags, **wanted)
        return got

    def open(self, *limiters):
        """Wait until the budget is open, and all of these processes have a lease."""
        for _ in range(15):
            self.clock.now += 1.0
            for limiter in limiters:
                self.exchange(limiter)
        assert all(limiter._status == "open" for limiter in limiters)
