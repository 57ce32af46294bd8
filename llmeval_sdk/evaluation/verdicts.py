"""Verdicts of earlier judgements, so that the same question is not paid for twice.

`Verdicts` remembers them by what the judgement was made of: the latest in memory, and, where it is
given such a place, in a file of this user (`VerdictFile`) or where all hosts share them.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from hashlib import blake2b
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from llmeval_sdk.config.settings import state_folder
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.judges.base import TypedForm
from llmeval_sdk.model import Chunk, Evaluation, Extraction, Record, Step
from llmeval_sdk.model.protocols import LLM, DecisionModel, Judge
from llmeval_sdk.process import private
from llmeval_sdk.process.forks import Locked
from llmeval_sdk.process.shield import tell
from llmeval_sdk.store.encode import dumps, evaluation_from, sparse
from llmeval_sdk.store.files import Unusable
from llmeval_sdk.store.state import Belongings, StateFile, StateTables, oldest_ns


class VerdictKey(NamedTuple):
    """Identifies a judgement by judge, version, wording, model and what the judge reads."""

    digest: bytes
    lasts: bool
    """Whether the key means the same in another process. Where the model has no address it does
    not: only within a process is it known to be the same model."""


def _is_final(verdict: Evaluation) -> bool:
    """Return whether a verdict may be used again: neither it nor a part of it failed."""
    return verdict.error is None and not verdict.metadata.get("failed")


def key_of(judge: Judge, llm: LLM, record: Record) -> VerdictKey | None:
    """Identify a judgement; ``None`` where the record holds what is no plain data.

    Args:
        judge: Which judge.
        llm: The model itself, not a view of it.
        record: What is judged.
    """
    model, lasts = _identity(llm) if judge.needs_model else ("", False)
    digest = judgement_key(judge, f"{model} {_wording(judge)}", record)
    return None if digest is None else VerdictKey(digest, lasts)


def decision_key(judge: Judge, model: DecisionModel, form: TypedForm) -> VerdictKey | None:
    """Identify a decision by what is asked, and by nothing else that the record holds.

    So the same question is the same whoever asked it, and one that was changed is another one,
    even without a new version of the judge. ``None`` where a text of the form is no plain data.
    """
    identity, lasts = _identity(model)
    sections = [(section.name, section.text) for section in form.sections]
    questions = [
        (
            question.name,
            question.type,
            question.instructions,
            [(option.value, option.description) for option in question.options],
        )
        for question in form.questions
    ]
    digest = blake2b(digest_size=16)
    asked = ("decision", judge.name, judge.version, identity, sections, questions)
    return VerdictKey(digest.digest(), lasts) if _feed(digest, asked) else None


def _identity(model: LLM | DecisionModel) -> tuple[str, bool]:
    """Identify a model, and say whether another process would identify it by the same text."""
    address = getattr(model, "base_url", None)
    if address is None:
        return f"{model.model}#{id(model)}", False
    return f"{model.model}@{address}{getattr(model, 'path', '')}", True


def _wording(judge: Any) -> str:
    """Identify the wording of a judge of the app, which may change without a new version."""
    template = getattr(judge, "_template", None)
    if template is not None:
        text = f"{template.rubric}|{judge._form!r}|{judge._examples!r}"
        return blake2b(text.encode(), digest_size=12).hexdigest()
    code = getattr(getattr(judge, "function", None), "__code__", None)
    return "" if code is None else blake2b(_code(code), digest_size=12).hexdigest()


def _code(code: Any) -> bytes:
    inner = [_code(constant) for constant in code.co_consts if hasattr(constant, "co_code")]
    plain = [constant for constant in code.co_consts if not hasattr(constant, "co_code")]
    return repr((code.co_code, code.co_names, plain, inner)).encode()


_NO_CONTENT = (
    "request_id", "usage", "latency_seconds", "trace_id", "span_id", "span_name", "span_kind",
    "tags",
)  # fmt: skip
CONTENT = tuple(field.name for field in fields(Record) if field.name not in _NO_CONTENT)
"""What a judge may read of a Record: all but its identity, tags, usage and latency. Of records
that agree in all of it, one is judged."""

_PLACES = ("_ns", "span_id")
"""Fields that say when and where something was, and not what it was."""
_PLAIN = frozenset({str, int, float, bool, type(None)})
_PARTS: dict[type, Callable[[object], tuple[object, ...]]] = {
    kind: attrgetter(*(row.name for row in fields(kind) if not row.name.endswith(_PLACES)))
    for kind in (Chunk, Extraction, Step)
}


def judgement_key(judge: Judge, model: str, record: Record) -> bytes | None:
    """Identify a judgement by judge, version, model and what the judge may read of the record.

    The judge's ``needs`` would be too few: it may read more than it needs. The key is ``None`` when
    a value is no plain data, so that nothing can be said about its equality.
    """
    digest = blake2b(digest_size=16)
    for name in CONTENT:
        content = getattr(record, name)
        if content is not None and not _feed(digest, (name, content)):
            return None
    return digest.digest() if _feed(digest, (judge.name, judge.version, model)) else None


class Place(Protocol):
    """Keeps verdicts as text, by name, beyond this process or for longer than its memory."""

    def get(self, name: bytes, /) -> str | None:
        """Return the text of a verdict that can be had without waiting, or ``None``."""

    async def find(self, name: bytes, /) -> str | None:
        """Return the text of a verdict, or ``None``; it may wait for another host."""

    def put(self, name: bytes, text: str, /) -> None:
        """Keep the text of a verdict. The call never blocks and never raises."""

    def close(self) -> None:
        """Write what still waits to be written, and close whatever is open."""


MAX_CHARACTERS = 1 << 20
"""The longest verdict that a place keeps, and that is read from one."""


class Verdicts(Locked):
    """The verdicts of earlier judgements.

    Args:
        entries: How many of the latest are kept in memory.
        seconds: How long these are used.
        place: Where verdicts are kept beside that, of models that have an address.
        clock: Returns monotonic seconds.
    """

    __slots__ = ("_clock", "_entries", "_place", "_seconds", "_verdicts")

    def __init__(
        self,
        *,
        entries: int = 1000,
        seconds: float = 600.0,
        place: Place | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._entries = entries
        self._seconds = seconds
        self._place = place
        self._clock = clock
        self._verdicts: OrderedDict[bytes, tuple[float, Evaluation]] = OrderedDict()

    def get(self, key: VerdictKey | None, /) -> Evaluation | None:
        """Return an earlier verdict on an identical judgement if it can be had without waiting.

        The verdict is marked ``cached``, and has no cost.
        """
        if key is None:
            return None
        verdict = self._recent(key)
        if verdict is None and self._place is not None and key.lasts:
            verdict = self._taken(key, self._place.get(key.digest))
        return None if verdict is None else _as_earlier(verdict)

    async def find(self, key: VerdictKey | None, /) -> Evaluation | None:
        """Do what `get` does, but also ask a place that has to be waited for, such as Redis."""
        verdict = self.get(key)
        if verdict is not None or key is None or self._place is None or not key.lasts:
            return verdict
        verdict = self._taken(key, await self._place.find(key.digest))
        return None if verdict is None else _as_earlier(verdict)

    def put(self, key: VerdictKey | None, verdict: Evaluation, /) -> None:
        """Keep a verdict, unless it or a part of it failed."""
        if key is None or not _is_final(verdict):
            return
        self._remember(key, verdict)
        if self._place is not None and key.lasts:
            text = dumps(sparse(verdict)) or ""
            if 0 < len(text) < MAX_CHARACTERS:
                self._place.put(key.digest, text)

    def close(self) -> None:
        """Let go of the place where verdicts are kept."""
        if self._place is not None:
            self._place.close()

    def _recent(self, key: VerdictKey) -> Evaluation | None:
        with self._lock:
            made, verdict = self._verdicts.get(key.digest, (float("-inf"), None))
            if verdict is None:
                return None
            if self._clock() - made > self._seconds:
                del self._verdicts[key.digest]
                return None
            self._verdicts.move_to_end(key.digest)
        return verdict

    def _remember(self, key: VerdictKey, verdict: Evaluation) -> None:
        with self._lock:
            self._verdicts[key.digest] = (self._clock(), verdict)
            self._verdicts.move_to_end(key.digest)
            while len(self._verdicts) > self._entries:
                self._verdicts.popitem(last=False)

    def _taken(self, key: VerdictKey, text: str | None) -> Evaluation | None:
        """Read what a place has; anything may stand there."""
        if text is None or len(text) >= MAX_CHARACTERS:
            return None
        try:
            verdict = evaluation_from(json.loads(text))
            if not isinstance(verdict.name, str) or type(verdict.value) not in _VALUES:
                raise TypeError(verdict)  # noqa: TRY301 - whatever is wrong, it is one case
        except Exception:
            tell("cache of verdicts", "what is kept of a judgement cannot be read: it is made anew")
            return None
        self._remember(key, verdict)
        return verdict


_VALUES = (float, int, bool, str, type(None))


def _as_earlier(verdict: Evaluation) -> Evaluation:
    metadata = {**verdict.metadata, "cached": True}
    return replace(verdict, metadata=metadata, usage=None, duration=None)


def _feed(digest: blake2b, value: Any) -> bool:  # noqa: PLR0911
    """Add a value to a digest, unambiguously; False when it holds anything but plain data."""
    kind = type(value)
    if kind in _PLAIN:
        digest.update(repr(value).encode())
        digest.update(b" ")
        return True
    if kind in (list, tuple):
        if _PLAIN.issuperset(map(type, value)):  # the usual case, at once
            digest.update(f"flat {tuple(value)!r}".encode())
            return True
        digest.update(b"list %d " % len(value))
        return all(_feed(digest, item) for item in value)
    if isinstance(value, Mapping) and all(type(key) in _PLAIN for key in value):
        digest.update(b"map %d " % len(value))
        return all(_feed(digest, (key, value[key])) for key in sorted(value, key=repr))
    if kind in _PARTS:
        parts = _PARTS[kind](value)
        digest.update(kind.__name__.encode())
        if _PLAIN.issuperset(map(type, parts)):
            digest.update(repr(parts).encode())
            return True
        return all(_feed(digest, part) for part in parts)
    return False


# Verdicts of earlier offline runs, in a file of this user.

MAX_WAITING = 1_000
SECONDS_WAITING = 1.0

_SCRIPT = """
-- By a hash of all that the verdict was made of.
CREATE TABLE verdicts (
  key BLOB PRIMARY KEY,
  made REAL NOT NULL,  -- seconds since the epoch
  verdict TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX verdicts_by_time ON verdicts (made);
"""


def verdict_path() -> Path:
    """Return where the file of verdicts lies: in the folder of this user's state.

    It is not beside the store, which may lie in a checkout: a file that came with it could hold
    verdicts that nobody gave, and pass a gate.
    """
    return private.expanded(state_folder()) / "verdicts.state"


def _forget(connection: sqlite3.Connection, theirs: Belongings) -> int:
    """Empty the cache where a person has any trace; return how many verdicts it had.

    A verdict is kept under a hash of all that it was made of, so nobody can tell whose it is.
    """
    return connection.execute("DELETE FROM verdicts").rowcount if theirs.traces else 0


def _expire(connection: sqlite3.Connection, before_ns: int) -> int:
    statement = "DELETE FROM verdicts WHERE made < ?"
    return connection.execute(statement, (before_ns / 1e9,)).rowcount


TABLES = StateTables(
    owner="evaluation",
    noun="cached verdict of offline runs",
    scripts=(_SCRIPT,),
    tables=("verdicts",),
    forget=_forget,
    expire=_expire,
    path=verdict_path,
)


class VerdictFile:
    """Verdicts of earlier runs. Used by one thread at a time.

    Where the file can be neither made nor trusted, those of this run are kept in memory.

    Raises:
        ConfigurationError: SQLite cannot use the file, or it is of a newer release.
    """

    def __init__(self, path: Path, *, max_days: float = 30.0) -> None:
        self._waiting: list[tuple[bytes, float, str]] = []
        self._file = StateFile(path, TABLES, timeout=10.0)
        try:
            self._expire(max_days)
        except OSError as error:
            why = error.strerror or error
            tell(
                "cache of verdicts",
                f"{path} is not used, and no verdict of earlier runs ({why}): set XDG_STATE_HOME to"
                " a folder that can be written to",
            )
            self._file.go_on_in_memory()
            self._expire(max_days)
        except (sqlite3.Error, Unusable) as error:
            self._file.close()
            raise ConfigurationError(
                f"the cache of verdicts in {path} cannot be used: {error}; pass cache=False "
                "(on the command line --no-cache)"
            ) from None

    def _expire(self, max_days: float) -> None:
        with self._file.changing() as connection:
            _expire(connection, oldest_ns(max_days))

    def get(self, name: bytes, /) -> str | None:
        """Return a verdict; see `Place`."""
        query = "SELECT verdict FROM verdicts WHERE key = ? AND length(verdict) < ?"
        try:
            with self._file.reading() as connection:
                row = connection.execute(query, (name, MAX_CHARACTERS)).fetchone()
        except sqlite3.Error:  # such as a text that is not UTF-8, or a torn page
            return None
        return None if row is None else row[0]

    async def find(self, name: bytes, /) -> str | None:
        """Return nothing more: all that is there is there at once."""

    def put(self, name: bytes, text: str, /) -> None:
        """Keep a verdict; see `Place`."""
        self._waiting.append((name, time.time(), text))
        waits = self._waiting[-1][1] - self._waiting[0][1]
        if len(self._waiting) >= MAX_WAITING or waits > SECONDS_WAITING:
            self._write()

    def close(self) -> None:
        """Write the verdicts that still wait, and close the file."""
        self._write()
        self._file.close()

    def _write(self) -> None:
        """Write all waiting verdicts in one transaction: other runs wait for the file meanwhile."""
        rows, self._waiting = self._waiting, []
        if not rows:
            return
        try:
            with self._file.changing() as connection:
                connection.executemany("REPLACE INTO verdicts VALUES (?, ?, ?)", rows)
        except (sqlite3.Error, OSError, Unusable) as error:
            tell("cache of verdicts", f"cannot be written: {error}")
