"""The tables of the store, and how a file of an older release is brought forward.

The scripts of a `Schema` are append-only: script N brings a file from version N to N + 1, and the
file's ``user_version`` says how many it has had. A release that changes tables appends a script.

Keys and indices are chosen for stores of millions of rows. Ids are random, so every index that
begins with one costs a random page per write: there is one for each kind of record, and it also
keeps a record that is delivered twice from standing twice. ``seq`` is the order of arrival.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable


class SchemaError(Exception):
    """The file is a database that this release must not change; the message says why."""


class EmptyError(SchemaError):
    """The file exists and is empty: another process is about to create the tables."""


class Schema:
    """The tables of one kind of file.

    Args:
        application_id: Marks a SQLite file as one of this kind, so that a wrong path never alters
            somebody else's database.
        scripts: The statements that make the tables, by version.
    """

    # No data class, here and in `state`: making one takes a millisecond of every first `configure`.

    __slots__ = ("application_id", "scripts", "version")

    def __init__(self, application_id: int, scripts: tuple[str, ...]) -> None:
        self.application_id = application_id
        self.scripts = scripts
        self.version = len(scripts)
        """The version of the files that this release writes."""

    def version_of(self, connection: sqlite3.Connection) -> int:
        """Return how many scripts a file has had; 0 stands for an empty file.

        Raises `SchemaError` if the file is of a newer release, or of another kind.
        """
        # The mark comes last: between these statements, another process may make all its tables.
        tables = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        mark = int(connection.execute("PRAGMA application_id").fetchone()[0])
        if mark != self.application_id and (mark or version or tables):
            raise SchemaError("it is a database of another program")
        if version > self.version:
            raise newer(version, self.version)
        return version

    def migrate(self, connection: sqlite3.Connection) -> None:
        """Bring a file forward in one transaction; of several processes at once, one does it.

        Raises `SchemaError` in the same cases as `version_of`.
        """
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = self.version_of(connection)
            run_scripts(connection, self.scripts[version:])
            if version < self.version:
                connection.execute(f"PRAGMA application_id = {self.application_id}")
                connection.execute(f"PRAGMA user_version = {self.version}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise

    def refuse_programs(self, connection: sqlite3.Connection) -> None:
        """Raise `SchemaError` for foreign views and triggers, which may run without an end."""
        ours = "".join(self.scripts)
        for (text,) in connection.execute(_PROGRAMS):
            if text is None or text not in ours:
                raise SchemaError("it holds views or triggers that no release of ours made")


_PROGRAMS = "SELECT sql FROM sqlite_master WHERE type IN ('view', 'trigger')"


def newer(version: int, known: int) -> SchemaError:
    """Return the refusal of a file that a newer release wrote."""
    return SchemaError(
        f"it was written by a newer release (version {version}, this one knows {known}): "
        "upgrade llmeval-inprocess or choose another file"
    )


def run_scripts(connection: sqlite3.Connection, scripts: Iterable[str]) -> None:
    """Run scripts inside the caller's transaction, which ``executescript`` would commit."""
    for script in scripts:
        statement = ""
        for line in script.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                connection.execute(statement)
                statement = ""


_TARGET = """
  id TEXT NOT NULL DEFAULT '',
  trace_id TEXT,
  span_id TEXT NOT NULL DEFAULT '',
  span_name TEXT,
  span_kind TEXT,
"""

_OUTCOME = """
  name TEXT NOT NULL DEFAULT '',
  time_ns INTEGER NOT NULL DEFAULT 0,
  value,  -- real: score, integer: pass or fail, text: category, null: not applicable
  probability REAL,  -- how likely the outcome is good, which decision models say
  label TEXT,
  error_type TEXT,
  error_message TEXT,
  evaluator_kind TEXT,
  evaluator_version TEXT,
  duration REAL,
  inclusion_probability REAL,
  input_tokens INTEGER,
  output_tokens INTEGER,
  total_tokens INTEGER,
  cost_usd REAL,
  explanation TEXT,
  metadata TEXT
"""

WORD = "CASE typeof(value) WHEN 'real' THEN NULL ELSE value END"
"""What an evaluation says if it is not a score: a category, or 1 for pass and 0 for fail."""
SESSION = "CASE WHEN json_valid(metadata) THEN json_extract(metadata, '$.session_id') END"
"""The session that an evaluation is about, cut to 256 characters."""
OF_SESSION = """instr(metadata, '"scope":"session"')"""
"""Whether an evaluation is about a session. In a text with these words, the quotes are escaped."""
MAY_BE_TURN = "session_id IS NOT NULL AND (parent_id IS NULL OR kind IN ('workflow', 'agent'))"
"""Whether a span may be a turn of its session."""
MAYBE_UNANSWERED = """kind IN ('workflow', 'agent') AND error_type IS NULL AND request IS NOT NULL
  AND ((value IS NULL AND (response IS NULL OR response = '""'))
    OR instr(ifnull(expected, ''), '"abstained"') > 0)"""
"""Whether a span may be a request without an answer; see `traffic.unanswered`."""

_SPANS = f"""
CREATE TABLE spans (
  seq INTEGER PRIMARY KEY,
  trace_id TEXT NOT NULL DEFAULT '',
  span_id TEXT NOT NULL DEFAULT '',
  parent_id TEXT,
  name TEXT NOT NULL DEFAULT '',
  kind TEXT,
  start_ns INTEGER NOT NULL DEFAULT 0,
  end_ns INTEGER NOT NULL DEFAULT 0,
  error_type TEXT,
  error_message TEXT,
  session_id TEXT,
  model_name TEXT,
  model_provider TEXT,
  trace_flags INTEGER,
  input_tokens INTEGER,
  output_tokens INTEGER,
  total_tokens INTEGER,
  cost_usd REAL,
  cache_read_input_tokens INTEGER,
  cache_write_input_tokens INTEGER,
  reasoning_output_tokens INTEGER,
  time_to_first_token REAL,  -- seconds
  tags TEXT,  -- from here on JSON, the bulkiest last: lists of spans never read them
  metrics TEXT,
  links TEXT,
  field_config TEXT,
  retrieval TEXT,
  confidence TEXT,
  value TEXT,
  attributes TEXT,
  prompt TEXT,
  request TEXT,
  response TEXT,
  expected TEXT,
  extractions TEXT,
  retrieved_context TEXT
);
CREATE UNIQUE INDEX spans_by_trace ON spans (trace_id, span_id);
CREATE INDEX spans_by_id ON spans (span_id);
CREATE INDEX spans_by_name ON spans (name, start_ns);
CREATE INDEX spans_roots ON spans (start_ns) WHERE parent_id IS NULL;

-- Partial indices cost nothing on the rows that they leave out.
CREATE INDEX spans_failed ON spans (start_ns) WHERE error_type IS NOT NULL;
CREATE INDEX spans_unanswered ON spans (name, start_ns) WHERE {MAYBE_UNANSWERED};
-- The span that the first link names: links begin with [["<trace, 32 characters>","<span, 16>".
CREATE INDEX spans_linked ON spans (substr(links, 39, 16)) WHERE links IS NOT NULL;
-- Requests by how long they took.
CREATE INDEX spans_took ON spans (end_ns - start_ns) WHERE parent_id IS NULL;

-- Sessions: their turns, and the tokens that they used.
CREATE INDEX spans_turns ON spans (session_id, start_ns, end_ns, parent_id, error_type)
  WHERE {MAY_BE_TURN};
CREATE INDEX spans_spent ON spans (session_id, input_tokens, output_tokens, cost_usd)
  WHERE session_id IS NOT NULL AND kind = 'llm' AND input_tokens IS NOT NULL;

-- Reports on traffic read this index alone, in the order of names, models and failures.
CREATE INDEX spans_summed ON spans (
  name, kind, model_name, error_type, start_ns, end_ns, parent_id, trace_id, session_id,
  input_tokens, output_tokens, total_tokens, cost_usd, cache_read_input_tokens,
  cache_write_input_tokens, reasoning_output_tokens, time_to_first_token, tags
);
"""

_EVALUATIONS = f"""
CREATE TABLE evaluations (seq INTEGER PRIMARY KEY, {_TARGET} {_OUTCOME});
CREATE UNIQUE INDEX evaluations_by_span ON evaluations (span_id, id);
-- The value is in the index, so that a rare one is found without reading the rows between.
CREATE INDEX evaluations_by_time ON evaluations (name, time_ns, value);
CREATE INDEX evaluations_by_value ON evaluations (name, value);
CREATE INDEX evaluations_judged ON evaluations (time_ns) WHERE evaluator_kind = 'judge';
CREATE INDEX evaluations_of_sessions ON evaluations (name, {SESSION}, time_ns, span_id)
  WHERE {OF_SESSION};

-- Reports sum up in the order of this index: nothing is sorted, and no row is read. The scores are
-- in the order of time, so that new ones go to the end of their group.
CREATE INDEX evaluations_summed ON evaluations (
  name, span_name, evaluator_kind, evaluator_version, {WORD}, time_ns, value, error_type,
  inclusion_probability, cost_usd, total_tokens, probability
);

CREATE TABLE not_run (
  seq INTEGER PRIMARY KEY, {_TARGET}
  evaluator TEXT NOT NULL DEFAULT '',
  time_ns INTEGER NOT NULL DEFAULT 0,
  reason TEXT,
  detail TEXT
);
CREATE UNIQUE INDEX not_run_by_span ON not_run (span_id, id);
CREATE INDEX not_run_by_time ON not_run (evaluator, time_ns);
CREATE INDEX not_run_summed ON not_run (evaluator, span_name, reason, time_ns);
"""

_FEEDBACK = f"""
-- What people said: the labels that judges are measured against.
CREATE TABLE feedback (seq INTEGER PRIMARY KEY, {_TARGET} {_OUTCOME});
CREATE UNIQUE INDEX feedback_by_span ON feedback (span_id, id);
CREATE INDEX feedback_by_time ON feedback (name, time_ns);

-- What is known of the file itself, and of what processes could not deliver.
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
"""

_FIELDS = """
-- The fields of answers, one row for each that an evaluation scored. What else the
-- evaluation says of a field stands in its metadata, in the list ``fields`` at ``place``.
CREATE TABLE fields (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL DEFAULT '',  -- of the evaluation
  place INTEGER NOT NULL DEFAULT 0,
  trace_id TEXT,
  span_id TEXT NOT NULL DEFAULT '',
  span_name TEXT,
  name TEXT NOT NULL DEFAULT '',  -- of the evaluator
  time_ns INTEGER NOT NULL DEFAULT 0,
  field TEXT NOT NULL DEFAULT '',  -- the path as all items of its lists have it
  path TEXT NOT NULL DEFAULT '',
  value TEXT,
  chance REAL  -- that the value is wrong; null: not checked. A judge says 1 or 0.
);
CREATE UNIQUE INDEX fields_by_span ON fields (span_id, id, place);
CREATE INDEX fields_by_chance ON fields (name, chance, time_ns) WHERE chance IS NOT NULL;
CREATE INDEX fields_summed ON fields (name, span_name, field, time_ns, chance);
"""

_OF_REQUESTS = f"""
-- The trace is in the indices of sums, so that a filter by requests reads no row either.
DROP INDEX evaluations_summed;
CREATE INDEX evaluations_summed ON evaluations (
  name, span_name, evaluator_kind, evaluator_version, {WORD}, time_ns, value, error_type,
  inclusion_probability, cost_usd, total_tokens, probability, trace_id
);
DROP INDEX not_run_summed;
CREATE INDEX not_run_summed ON not_run (evaluator, span_name, reason, time_ns, trace_id);
"""

_LOCAL_ROOTS = """
-- The parent of a span that is in another process, or another library's; see `requests`.
ALTER TABLE spans ADD COLUMN outside_parent TEXT;
CREATE INDEX spans_requests ON spans (trace_id, outside_parent, start_ns, span_id)
  WHERE parent_id IS NULL;
-- Mostly empty, so that a look at it tells what most stores need not be searched for.
CREATE INDEX spans_local_roots ON spans (outside_parent)
  WHERE outside_parent IS NOT NULL AND parent_id IS NULL;
"""

_LEFT_OUT = """
-- The chance that the span's trace was stored when there was too much; null where nothing was left
-- out. It is in the index of sums, which are corrected by its inverse.
ALTER TABLE spans ADD COLUMN inclusion_probability REAL;
DROP INDEX spans_summed;
CREATE INDEX spans_summed ON spans (
  name, kind, model_name, error_type, start_ns, end_ns, parent_id, trace_id, session_id,
  input_tokens, output_tokens, total_tokens, cost_usd, cache_read_input_tokens,
  cache_write_input_tokens, reasoning_output_tokens, time_to_first_token, tags,
  inclusion_probability
);
"""

_TEXTS = """
-- The long texts of spans, each once a day; see `texts`. In a column of a span stands the key,
-- between two characters U+001F. `llmeval export` writes all columns whole.
CREATE TABLE texts (
  seq INTEGER PRIMARY KEY,
  body BLOB NOT NULL  -- as it stands inside JSON, in UTF-8 and raw DEFLATE (RFC 1951)
);
CREATE TABLE text_uses (
  key TEXT PRIMARY KEY,  -- of a hash of the day and the text
  text INTEGER NOT NULL,
  uses INTEGER NOT NULL  -- how many spans have the key; without any, both rows are deleted
) WITHOUT ROWID;
"""

STORE = Schema(
    0x6C6C6D65,
    (f"{_SPANS}{_EVALUATIONS}{_FEEDBACK}", _FIELDS, _OF_REQUESTS, _LOCAL_ROOTS, _LEFT_OUT, _TEXTS),
)
