"""A store of a million spans, made in a minute: real tables and indices, rows in bulk."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from llmeval_sdk.store import _schema
from llmeval_sdk.store.encode import COLUMNS, dumps


TRACE_SPANS = 4
EVERY_NS = 50_000_000
TURNS = 10
"""The traces of one session, of which every fifth belongs to `EVERYBODY`."""
EVERYBODY = "default"
"""A session that all users share, by mistake: 50,000 turns of a million spans."""
HEURISTICS = (
    "context_precision", "context_recall_heuristic", "context_relevance", "groundedness_risk",
    "multi_source_agreement", "aggregated_confidence", "retrieval_risk",
)  # fmt: skip
WORDS = (  # noqa: SIM905 - a text is easier to read
    "roof slate barn tile house window brick wall garden stone north river harbour window copper "
    "lease owner tenant deposit notice clause repair winter heating boiler survey parcel ledger"
).split()


def fill(path: Path, spans: int) -> None:
    """Write traces of a workflow, a retrieval, a task and an llm span, with their scores."""
    _fill(path, _traces(spans // TRACE_SPANS))


def fill_judged(path: Path, verdicts: int) -> None:
    """Write the verdicts of two judges, one in words and one in scores, on thirty days' requests."""
    _fill(path, _judged(verdicts // 2))


def _fill(path: Path, traces: Iterator[dict[str, list[tuple[object, ...]]]]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:  # noqa: TID251
        for pragma in ("journal_mode = WAL", "synchronous = OFF", "cache_size = -400000"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        _schema.STORE.migrate(connection)
        path.chmod(0o600)
        indices = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        ).fetchall()
        for name, _ in indices:
            connection.execute(f"DROP INDEX {name}")
        connection.execute("BEGIN")
        batch: dict[str, list[tuple[object, ...]]] = {table: [] for table in COLUMNS}
        for number, rows in enumerate(traces, 1):
            for table, found in rows.items():
                batch[table] += found
            if number % 5_000 == 0:
                _flush(connection, batch)
        _flush(connection, batch)
        for _, sql in indices:
            connection.execute(sql)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _flush(connection: sqlite3.Connection, batch: dict[str, list[tuple[object, ...]]]) -> None:
    for table, rows in batch.items():
        columns = COLUMNS[table]
        marks = ",".join("?" * len(columns))
        connection.executemany(f"INSERT INTO {table} ({','.join(columns)}) VALUES ({marks})", rows)
        rows.clear()


def _traces(count: int) -> Iterator[dict[str, list[tuple[object, ...]]]]:
    chance = random.Random(7)
    texts = [" ".join(chance.choices(WORDS, k=80)) for _ in range(2_000)]
    first = time.time_ns() - count * EVERY_NS
    for number in range(count):
        yield _trace(number, first + number * EVERY_NS, chance, texts)


def _trace(
    number: int, start: int, chance: random.Random, texts: list[str]
) -> dict[str, list[tuple[object, ...]]]:
    trace = f"{chance.getrandbits(128):032x}"
    ids = [f"{chance.getrandbits(64):016x}" for _ in range(TRACE_SPANS)]
    question = f"What does document {number} say about the {chance.choice(WORDS)}?"
    chunks = [
        {"content": chance.choice(texts), "chunk_id": str(rank), "score": 0.9 - rank / 10}
        for rank in range(5)
    ]
    answer = chance.choice(texts)[:200]
    failed = "TimeoutError" if number % 997 == 0 else None
    session = EVERYBODY if number % 5 == 0 else f"chat-{number // TURNS:032x}"
    common = {"trace_id": trace, "trace_flags": 1, "session_id": session}
    spans = [
        {"name": "answer", "kind": "workflow", "request": question, "response": answer},
        {"name": "search", "kind": "retrieval", "request": question, "retrieved_context": chunks},
        {"name": "rank", "kind": "task", "request": {"question": question, "limit": 5}},
        {"name": "chat", "kind": "llm", "response": answer} | _used(number, chance),
    ]
    spans[0] |= {"session_id": f"chat-{number // 6}", "tags": _tags(number, chance)}
    for place, span in enumerate(spans):
        begun = start + place * 1_000_000
        span |= {**common, "span_id": ids[place], "parent_id": ids[0] if place else None}
        span |= {"start_ns": begun, "end_ns": begun + int(chance.lognormvariate(17.5, 0.5))}
        span["error_type"] = failed if place in (0, 3) else None
    target = {"trace_id": trace, "span_id": ids[0], "span_name": "answer", "span_kind": "workflow"}
    said = [(name, round(chance.betavariate(5, 2), 4), "heuristic") for name in HEURISTICS]
    said.append(
        ("agreement_pattern", chance.choice(("unanimous", "majority", "mixed")), "heuristic")
    )
    refused = []
    if number % 5 == 0:
        said.append(("groundedness", "no" if chance.random() < 0.2 else "yes", "judge"))
    else:
        refused.append({"evaluator": "groundedness", "reason": "not_escalated", "detail": "0.4"})
    outcomes = [
        {**target, "id": f"{ids[0]}-{name}", "name": name, "value": value, "evaluator_kind": kind}
        | {"time_ns": start + 41_000_000, "evaluator_version": "1"}
        | {"inclusion_probability": 0.2 if kind == "judge" else 1.0}
        | ({"cost_usd": 0.0004, "duration": chance.random()} if kind == "judge" else {})
        for name, value, kind in said
    ]
    if number % TURNS in (4, 9):  # the session paused after its fifth and after its last turn
        period = number % TURNS // 5 + 1
        marks = {"scope": "session", "session_id": session, "period": period, "session_turns": 5}
        outcomes += [
            {**target, "id": f"{ids[0]}-{name}-session-{period}", "name": name, "value": value}
            | {"evaluator_kind": kind, "time_ns": start + 60_000_000_000, "metadata": marks}
            | {"evaluator_version": "1", "inclusion_probability": 1.0}
            for name, value, kind in (
                ("goal_reached", chance.choice(("yes", "no")), "judge"),
                ("repetition", chance.random(), "heuristic"),
            )
        ]
    for refusal in refused:
        refusal |= {**target, "id": f"{ids[0]}-groundedness", "time_ns": start + 41_000_000}
    return {
        "spans": [_row("spans", span) for span in spans],
        "evaluations": [_row("evaluations", each) for each in outcomes],
        "not_run": [_row("not_run", each) for each in refused],
        "feedback": [],
    }


def _used(number: int, chance: random.Random) -> dict[str, object]:
    model = chance.choice(("gpt-4o-mini", "gpt-4o-mini", "gpt-4o", "our-own-7b"))
    tokens, answer = chance.randrange(200, 4_000), chance.randrange(20, 600)
    used: dict[str, object] = {"input_tokens": tokens, "output_tokens": answer}
    about = {"model_name": model, "total_tokens": tokens + answer, **used}
    if model != "our-own-7b":
        about["cost_usd"] = (tokens * 0.15 + answer * 0.6) / 1e6
    if number % 3 == 0:
        used["cache_read_input_tokens"] = tokens // 2
    used["time_to_first_token"] = round(chance.uniform(0.004, 0.02), 6)
    return about | {"metrics": used}


def _tags(number: int, chance: random.Random) -> dict[str, str]:
    return {"user_id": f"user-{number % 9_000}", "release": chance.choice(("1.4", "1.5", "1.6"))}


def _judged(requests: int) -> Iterator[dict[str, list[tuple[object, ...]]]]:
    rng = random.Random(11)
    step = 30 * 86_400_000_000_000 // requests
    first = time.time_ns() - requests * step
    for number in range(requests):
        span_id = f"{rng.getrandbits(64):016x}"
        about = {"trace_id": f"{rng.getrandbits(128):032x}", "span_id": span_id}
        about |= {"span_name": rng.choice(("answer", "extract_field", "chat"))}
        about |= {"span_kind": "workflow", "time_ns": first + number * step}
        about |= {"evaluator_kind": "judge", "evaluator_version": "3", "cost_usd": 0.0004}
        about |= {"total_tokens": 900, "explanation": "The answer is in the second passage."}
        about |= {"inclusion_probability": rng.choice((1.0, rng.uniform(0.05, 1.0)))}
        good = rng.random() < 0.9
        scored = {"groundedness": "yes" if good else "no", "tone": round(rng.random(), 4)}
        yield {
            "evaluations": [
                _row(
                    "evaluations",
                    {**about, "id": f"{span_id}-{name}", "name": name, "value": value},
                )
                for name, value in scored.items()
            ]
        }


_JSON = {"request", "response", "retrieved_context", "tags", "metrics", "metadata"}


def _row(table: str, given: dict[str, object]) -> tuple[object, ...]:
    return tuple(
        dumps(given[name]) if name in _JSON and name in given else given.get(name)
        for name in COLUMNS[table]
    )
