"""Verdicts of earlier judgements, so that the same question is not paid for twice.

Online they are kept in memory for a while, offline in the file of state, signed (`VerdictFile`).
Both go by one key and keep the same verdicts.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import sqlite3
import struct
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from hashlib import blake2b, sha256
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


# The key that signs kept verdicts: who can write the file of verdicts cannot make one up.
#
# A file in a checkout comes with whatever somebody put in it, and a verdict in it would pass a
# gate without a judge being asked. So the key is outside: a secret of the CI, or one of this
# machine.

KEY_BYTES = 32
_PURPOSE = b"llmeval verdict 1"


class Signer:
    """Signs verdicts and checks their signatures."""

    def __init__(self, key: bytes) -> None:
        self._key = sha256(_PURPOSE + key).digest()

    def sign(self, name: bytes, made: float, verdict: str) -> bytes:
        """Sign a verdict, the judgement it is of, and when it was made."""
        text = verdict.encode("utf-8", "surrogatepass")
        parts = struct.pack(">Qd", len(name), made), name, text
        return hmac.new(self._key, b"".join(parts), sha256).digest()

    def made_this(self, signature: object, name: bytes, made: object, verdict: object) -> bool:
        """Say whether a signature is one of this key, over just this."""
        if not (
            isinstance(signature, bytes) and isinstance(made, float) and isinstance(verdict, str)
        ):
            return False
        return hmac.compare_digest(signature, self.sign(name, made, verdict))


def own_signer() -> Signer:
    """Return what signs with the key of this user and machine.

    Where none can be kept, the key is of this run alone, which is said.
    """
    path = private.expanded(state_folder()) / "verdict.key"
    try:
        return Signer(_machine_key(path))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        tell(
            "cache of verdicts",
            f"no key can be kept at {path} ({why}): verdicts of earlier runs are not used, and "
            "those of this one by no other; set XDG_STATE_HOME to a folder that can be written to",
        )
        return Signer(secrets.token_bytes(KEY_BYTES))


def _machine_key(path: Path) -> bytes:
    """Read the key of this machine, made where there is none.

    Raises:
        OSError: it cannot be made, or others could have put it there or can read it.
        ValueError: what is there is no key.
    """
    if not path.exists():
        private.make_folder(path.parent)
        beside = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            private.make_file(beside)
            beside.write_bytes(secrets.token_bytes(KEY_BYTES))
            os.link(beside, path)  # whole or not at all, and of two processes the first one's
        except FileExistsError:
            pass
        finally:
            beside.unlink(missing_ok=True)
    private.check_folder(path.parent.lstat())
    private.check_file(path)
    if path.stat().st_mode & 0o077 and hasattr(os, "geteuid"):
        raise PermissionError(f"others can read {path.name}: remove it, and a new one is made")
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise ValueError(f"{path.name} holds no key: remove it, and a new one is made")
    return key


class VerdictKey(NamedTuple):
    """Identifies a judgement by judge, version, wording, model and what the judge reads."""

    digest: bytes
    lasts: bool
    """Whether the key means the same in another process. Where the model has no address it does
    not: only within a process is it known to be the same model."""


class EarlierVerdict(NamedTuple):
    """The answer to the question whether an identical judgement was made before."""

    verdict: Evaluation | None = None
    """Its verdict, marked ``cached`` and without a cost; ``None`` where there is none."""
    is_distrusted: bool = False
    """True where there is a verdict that our key did not sign: the judgement is made anew."""


class Verdicts(Protocol):
    """Keeps verdicts and finds them again."""

    def get(self, key: VerdictKey | None, /) -> EarlierVerdict:
        """Return the verdict on a judgement, if there is one that can be trusted."""

    async def find(self, key: VerdictKey | None, /) -> EarlierVerdict:
        """Return the same, also from where it has to be waited for."""

    def put(self, key: VerdictKey | None, verdict: Evaluation, /) -> None:
        """Keep a verdict, if it is one that `is_final`."""


def is_final(verdict: Evaluation) -> bool:
    """Return whether a verdict may be used again: neither it nor a part of it failed."""
    return verdict.error is None and not verdict.metadata.get("failed")


def as_earlier(verdict: Evaluation) -> EarlierVerdict:
    """Return a verdict that was kept: marked ``cached``, and without a cost."""
    metadata = {**verdict.metadata, "cached": True}
    return EarlierVerdict(replace(verdict, metadata=metadata, usage=None, duration=None))


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


class RecentVerdicts(Locked):
    """The latest verdicts, at most ``entries`` of them and none older than ``seconds``."""

    __slots__ = ("_clock", "_entries", "_seconds", "_verdicts")

    def __init__(
        self,
        *,
        entries: int = 1000,
        seconds: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._entries = entries
        self._seconds = seconds
        self._clock = clock
        self._verdicts: OrderedDict[bytes, tuple[float, Evaluation]] = OrderedDict()

    def get(self, key: VerdictKey | None, /) -> EarlierVerdict:
        """Return the verdict on an identical judgement, if there was one."""
        if key is None:
            return EarlierVerdict()
        with self._lock:
            made, verdict = self._verdicts.get(key.digest, (float("-inf"), None))
            if verdict is None:
                return EarlierVerdict()
            if self._clock() - made > self._seconds:
                del self._verdicts[key.digest]
                return EarlierVerdict()
            self._verdicts.move_to_end(key.digest)
        return as_earlier(verdict)

    async def find(self, key: VerdictKey | None, /) -> EarlierVerdict:
        """Return what `get` returns."""
        return self.get(key)

    def put(self, key: VerdictKey | None, verdict: Evaluation, /) -> None:
        """Keep a verdict; failures are not kept."""
        if key is None or not is_final(verdict):
            return
        with self._lock:
            self._verdicts[key.digest] = (self._clock(), verdict)
            self._verdicts.move_to_end(key.digest)
            while len(self._verdicts) > self._entries:
                self._verdicts.popitem(last=False)


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


# Verdicts of earlier offline runs, signed, in the file of state.

MAX_CHARACTERS = 1 << 20
"""The longest verdict that is kept. A longer one that stands in the file is not read."""
MAX_WAITING = 1_000
SECONDS_WAITING = 1.0


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
    tables=("verdicts",),
    forget=_forget,
    expire=_expire,
)


class VerdictFile:
    """Verdicts by what identifies their judgements. Used by one thread at a time.

    Failures, and chunk judges of which a part failed, are not kept.

    Raises:
        ConfigurationError: the file cannot be opened, or is somebody else's.
    """

    def __init__(self, path: Path, signer: Signer, *, max_days: float = 30.0) -> None:
        self._signer = signer
        self._waiting: list[tuple[bytes, float, str, bytes]] = []
        self._file = StateFile(path, timeout=10.0)
        private.reclaim(path.parent)
        opened = private.take_rights_of_others(path)
        try:
            with self._file.changing() as connection:
                if opened:
                    _empty_the_rest(connection, path)
                _expire(connection, oldest_ns(max_days))
        except (sqlite3.Error, OSError, Unusable) as error:
            self._file.close()
            for each, mode in opened.items():  # nobody who opens it next may believe it either
                with suppress(OSError):
                    each.chmod(mode)
            raise ConfigurationError(
                f"the cache of verdicts in {path} cannot be used: {error}; pass cache=False "
                "(on the command line --no-cache)"
            ) from None

    def get(self, key: VerdictKey | None, /) -> EarlierVerdict:
        """Return the verdict on a judgement, if there is one that can be trusted."""
        if key is None or not key.lasts:
            return EarlierVerdict()
        query = (
            "SELECT signature, made, verdict FROM verdicts WHERE key = ? AND length(verdict) < ?"
        )
        try:
            with self._file.reading() as connection:
                row = connection.execute(query, (key.digest, MAX_CHARACTERS)).fetchone()
        except sqlite3.Error:  # such as a text that is not UTF-8, or a torn page
            return EarlierVerdict(is_distrusted=True)
        if row is None:
            return EarlierVerdict()
        signature, made, text = row
        if not self._signer.made_this(signature, key.digest, made, text):
            return EarlierVerdict(is_distrusted=True)
        return as_earlier(evaluation_from(json.loads(text)))

    async def find(self, key: VerdictKey | None, /) -> EarlierVerdict:
        """Return what `get` returns."""
        return self.get(key)

    def put(self, key: VerdictKey | None, verdict: Evaluation, /) -> None:
        """Keep a verdict; failures are not kept."""
        if key is None or not key.lasts or not is_final(verdict):
            return
        now, text = time.time(), dumps(sparse(verdict)) or ""
        if len(text) >= MAX_CHARACTERS:
            return
        signature = self._signer.sign(key.digest, now, text)
        self._waiting.append((key.digest, now, text, signature))
        if len(self._waiting) >= MAX_WAITING or now - self._waiting[0][1] > SECONDS_WAITING:
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
                connection.executemany(
                    "REPLACE INTO verdicts (key, made, verdict, signature) VALUES (?, ?, ?, ?)",
                    rows,
                )
        except (sqlite3.Error, OSError, Unusable) as error:
            tell("cache of verdicts", f"cannot be written: {error}")


def _empty_the_rest(connection: sqlite3.Connection, path: Path) -> None:
    """Delete what others could have written: all that has no signature, unlike verdicts."""
    count = 0
    for (name,) in connection.execute(_THE_REST).fetchall():
        quoted = name.replace('"', '""')
        count += connection.execute(f'DELETE FROM "{quoted}"').rowcount  # noqa: S608 - quoted
    if count:
        tell("file of state", f"others could write {path}: its signed verdicts stay, and sessions,"
             " calibrations and alarms begin anew")  # fmt: skip


_THE_REST = """
SELECT name FROM sqlite_master
WHERE type = 'table' AND name NOT IN ('verdicts', 'plugins') AND name NOT LIKE 'sqlite%'
"""
