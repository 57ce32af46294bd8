"""A store whose columns hold what they cannot hold gives a sentence, never a traceback."""

import shutil
import sqlite3
from contextlib import closing

import pytest
from command_line import run_command

from llmeval_sdk.model import Chunk, Extraction, Failure, Prompt, Target, Usage
from llmeval_sdk.store.damage import damage_of
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
    ("agreement", "--evaluator", "groundedness", "--feedback", "thumbs"),
    ("calibrate", "--evaluator", "mood", "--feedback", "thumbs"),
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


@pytest.fixture
def whole(store):
    """Return the path of a store in which every column of every table has something."""
    for n in range(40):
        span = store.span(
            f"{n + 1:02x}" * 8, "answer", trace_id=f"{n + 1:032x}", parent_id=None if n else "ff" * 8,
            request={"q": n}, response="a", retrieved_context=(Chunk("text", "a.md", score=0.5),),
            extractions=(Extraction("x", 1, 0.5),), tags={"team": "a" if n % 2 else "b", "user_id": "u"},
            attributes={"a": 1}, metrics={"cached_tokens": 3.0}, usage=Usage(3, 4, 7, 0.1), model_name="m",
            model_provider="p", session_id="s", prompt=Prompt("p", "1", template="t"), value="v",
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
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute(
            "PRAGMA wal_checkpoint(TRUNCATE)"
        )  # so that the file can be copied alone
    return store.path


def run(command, path):
    store = () if command == ("doctor",) else ("--store", path)
    return run_command(
        *command, *store, folder=path.parent, keys="q\n", env={"LLMEVAL_STORE": str(path)}
    )


@EACH_COMMAND
def test_every_command_works_on_the_whole_store(whole, command):
    """So that what they say of damaged copies is due to the damage."""
    done = run(command, whole)
    assert not done.stderr
    assert done.stdout or command == EXPORTED
    assert done.returncode in (0, 1) or "undecided" in done.stdout


COLUMNS_OF_ALL = [(table, column) for table, columns in COLUMNS.items() for column in columns]


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
    read, connect = set(), sqlite3.connect

    def note(action, table, column, *_):
        read.add((table, column))
        return sqlite3.SQLITE_OK

    def connect_and_note(*args, **options):
        connection = connect(*args, **options)
        connection.set_authorizer(note)
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", connect_and_note)
        run(command, path)
    return read


@EACH_COMMAND
def test_a_damaged_column_gives_a_sentence_and_no_traceback(whole, tmp_path, command):
    """Each column in turn holds in two rows what it cannot hold; commands take turns with what."""
    path = tmp_path / "damaged" / "llmeval.db"
    path.parent.mkdir(mode=0o700)
    broken, read = [], columns_read(command, whole)
    assert read
    for number, (table, column) in enumerate(COLUMNS_OF_ALL):
        if (table, column) not in read:
            continue
        wrong = list(WRONG)[(number + COMMANDS.index(command)) % len(WRONG)]
        shutil.copy(whole, path)
        if damage(path, table, column, wrong):
            try:
                done = run(command, path)
            except Exception as error:
                broken.append((table, column, wrong, repr(error)))
            else:
                silent = not done.stdout + done.stderr and command != EXPORTED
                if silent or "Traceback" in done.stderr:
                    broken.append((table, column, wrong, done.stderr))
    assert broken == []


def test_the_sentence_names_the_column_and_what_to_do(whole):
    """Whoever reads it knows where to look and how to go on."""
    assert damage(whole, "spans", "start_ns", "a word")
    done = run(("traces",), whole)
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"llmeval traces: {whole} is damaged: the column start_ns of spans holds text in 2"
    )
    assert "move the file away" in done.stderr


def test_an_error_of_ours_is_not_blamed_on_a_sound_store(whole):
    """Only a store that is damaged is called so."""
    assert damage_of(whole) is None


def test_halves_of_surrogate_pairs_of_an_earlier_release_break_nothing(whole, tmp_path):
    """It wrote them as escapes within JSON; they are shown as what cannot be read."""
    with closing(sqlite3.connect(whole)) as database, database:
        escaped = '{"te\\ud800am": "v\\ud800", "team": "\\ud800"}'
        database.execute(
            "UPDATE spans SET tags=?, attributes=?, request=?", (escaped, escaped, escaped)
        )
    for command in (("report", "--by", "tag:team"), (*EXPORTED[:-1], tmp_path / "spans.parquet")):
        done = run_command(*command, "--store", whole, folder=tmp_path)
        assert done.returncode == 0, done.stderr
