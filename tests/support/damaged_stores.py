"""A store in which every column has something, damaged copies, and the commands that read it."""

import shutil
import sqlite3
from contextlib import closing

import pytest
from cli_fixtures import Store
from command_line import run_command

from llmeval_sdk.model import Chunk, Extraction, Failure, Prompt, Target, Usage
from llmeval_sdk.store import connection as store_connection
from llmeval_sdk.store.encode import COLUMNS


SPAN = "05" * 8
EXPORTED = ("export", "--format", "parquet", "--out", "spans.parquet")
COMMANDS = (
    ("report",),
    ("report", "--json"),
    ("report", "--by", "tag:team"),
    ("report", "--by", "model"),
    ("report", "--by", "user"),
    ("compare", "--by", "tag:team", "--evaluator", "groundedness"),
    ("traces",),
    ("traces", "--worst", "precision"),
    ("explain", SPAN),
    ("explain", SPAN, "--json"),
    ("export",),
    ("export", "--format", "otlp"),
    EXPORTED,
    ("evaluate", "--from-store", "--evaluators", "context_precision", "--no-progress"),
    ("judges", "--evaluator", "groundedness", "--feedback", "thumbs"),
    ("judges", "--calibrate", "--evaluator", "mood", "--feedback", "thumbs"),
    ("label", "groundedness"),
    ("dataset", "add", "golden", SPAN),
    ("watch", "--once", "--alert", "groundedness<0.9"),
    ("prune", "--user", "nobody", "--dry-run"),
    ("doctor",),
)
EACH_COMMAND = pytest.mark.parametrize(
    "command",
    [
        pytest.param(one, marks=pytest.mark.plugin("watch")) if one[0] == "watch" else one
        for one in COMMANDS
    ],
    ids=" ".join,
)
WRONG = {
    "bytes": b"\x00\xff",
    "a word": "many",
    "a huge number": 1 << 62,
    "JSON of another shape": '[5,{"a":[]}]',
    "no JSON": '{"a',
    "no UTF-8": None,
}
COLUMNS_OF_ALL = [(table, column) for table, columns in COLUMNS.items() for column in columns]


def make_sound_store(folder):
    """Fill every column of every table of a new store in a folder, and return its path."""
    store = Store(folder / "store" / "llmeval.db")
    with closing(store.writer), store.at_once():
        for n in range(40):
            span = store.span(
                f"{n + 1:02x}" * 8, "answer", trace_id=f"{n + 1:032x}",
                parent_id=None if n else "ff" * 8, request={"q": n}, response="a",
                retrieved_context=(Chunk("text", "a.md", score=0.5),),
                extractions=(Extraction("x", 1, 0.5),),
                tags={"team": "a" if n % 2 else "b", "user_id": "u"},
                attributes={"a": 1}, metrics={"cached_tokens": 3.0}, usage=Usage(3, 4, 7, 0.1),
                model_name="m", model_provider="p", session_id="s", value="v",
                prompt=Prompt("p", "1", template="t"),
                confidence="HIGH", field_config={"name": "n"}, retrieval={"limits": {"bm25": 3}},
                expected={"expected_response": "a"}, links=(Target("ab" * 16, "cd" * 8),),
                error=Failure("E", "m") if n == 3 else None,
            )  # fmt: skip
            about = {
                "explanation": "why",
                "metadata": {"language": "en"},
                "evaluator_version": "1",
                "duration": 0.5,
            }
            store.evaluation(span, "precision", n / 12, **about)
            store.evaluation(span, "groundedness", "yes" if n % 3 else "no", evaluator_kind="judge",
                             inclusion_probability=0.5, usage=Usage(3, 4, 7, 0.1), **about)  # fmt: skip
            store.evaluation(span, "mood", "yes" if n % 3 else "no", evaluator_kind="decision",
                             probability=0.2 + n / 80, **about)  # fmt: skip
            store.evaluation(span, "thumbs", bool(n % 4), evaluator_kind="human", **about)
            store.not_run(span, "correctness", "sampled_out", "detail")
    return store.path


def run(command, path):
    store = () if command == ("doctor",) else ("--store", path)
    return run_command(
        *command, *store, folder=path.parent, keys="q\n", env={"LLMEVAL_STORE": str(path)}
    )


def damage(path, table, column, wrong):
    """Put a wrong value into two rows of a column; return False if SQLite does not take it."""
    value = "CAST(x'61ff62' AS TEXT)" if WRONG[wrong] is None else "?"
    values = () if WRONG[wrong] is None else (WRONG[wrong],)
    with closing(sqlite3.connect(path)) as connection, connection:
        try:
            connection.execute(f"UPDATE {table} SET {column} = {value} WHERE seq IN (4, 5)", values)
        except sqlite3.IntegrityError:  # of a column that has to be unique, or of an index
            return False
    return True


def columns_read(command, path):
    """Return the columns that a command reads, whatever the values: no other one can harm it."""
    read = set()

    def note(action, table, column, *_):
        read.add((table, column))
        return sqlite3.SQLITE_OK

    class Noting(store_connection.Connection):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.set_authorizer(note)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_connection, "Connection", Noting)
        run(command, path)
    return read


def broken_by(command, sound, folder, every=1):
    """Damage each column that a command reads in turn; return what did not give a sentence.

    Commands take turns with what stands there, and with ``every=5`` with the columns as well: each
    takes a fifth of them.
    """
    path = folder / "damaged" / "llmeval.db"
    path.parent.mkdir(mode=0o700)
    broken, read = [], columns_read(command, sound)
    assert read
    for turn, (table, column) in enumerate(COLUMNS_OF_ALL, start=COMMANDS.index(command)):
        if (table, column) not in read or turn % every:
            continue
        wrong = list(WRONG)[turn % len(WRONG)]
        shutil.copy(sound, path)
        if damage(path, table, column, wrong):
            try:
                done = run(command, path)
            except Exception as error:
                broken.append((table, column, wrong, repr(error)))
            else:
                silent = not done.stdout + done.stderr and command != EXPORTED
                if silent or "Traceback" in done.stderr:
                    broken.append((table, column, wrong, done.stderr))
    return broken
