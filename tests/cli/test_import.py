"""What `export` wrote comes back as it was, once, and whatever else a file holds is told by line."""

import gzip
import io
import json
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from llmeval_sdk.model import (
    Batch,
    Chunk,
    Evaluation,
    EvaluationEvent,
    Extraction,
    Failure,
    Prompt,
    Target,
    Usage,
)
from llmeval_sdk.offline.data import history


START = 1_767_225_600_123_456_789
TRACE = "ab" * 16


@pytest.fixture
def filled(store):
    """A store with everything that a store holds, a workflow with steps below it among them."""
    root = store.span(
        "0a" * 8, name="answer", start_ns=START, request={"messages": [{"role": "user"}]},
        response="slate", value={"roof": [1, 2.0, None, True]}, confidence="HIGH",
        session_id="s-1", tags={"tenant": "acme"}, metrics={"latency": 0.25}, attributes={"n": 1},
        field_config={"name": "roof"}, retrieval={"limits": {"bm25": 3}}, trace_flags=0,
        expected={"expected_facts": ("slate",), "expected_response": "slate",
                  "expected_retrieved_context": (Chunk("t", "a.md"),), "abstained": "no idea"},
        extractions=(Extraction("slate", 1, 0.5, "quoted"), Extraction([], None)),
        retrieved_context=(Chunk("own", "own.md", page=3),),
    )  # fmt: skip
    store.span(
        "0b" * 8, name="search", kind="retrieval", parent_id=root.span_id, request="roof?",
        retrieved_context=(Chunk("The roof is slate.", "a.md", "c1", 0.5, 3, "bm25", {"x": 1}),),
    )  # fmt: skip
    store.span("0e" * 8, name="empty", kind="retrieval", parent_id=root.span_id,
               retrieved_context=(), extractions=())  # fmt: skip
    store.span(
        "0c" * 8, name="ask", kind="llm", parent_id=root.span_id, response={"choices": []},
        model_name="gpt", model_provider="openai", usage=Usage(3, 4, 7, 0.01),
        prompt=Prompt("p", "2", chat_template=({"role": "user"},), variables={"q": "x"}),
        metrics={"cache_read_input_tokens": 2, "time_to_first_token": 0.5},
    )  # fmt: skip
    store.span(
        "0d" * 8, name="broken", error=Failure("ValueError", "no"), request="\0 ü \U0001f600"
    )
    store.span(
        "0f" * 8, name="judging", trace_id="cd" * 16, kind="task", tags={"llmeval.judge": "polite"},
        links=(Target(TRACE, root.span_id, "answer", "workflow"),),
    )  # fmt: skip
    bare = store.span("1a" * 8, name="bare", trace_id="ce" * 16, request="q", response="")
    store.span("1b" * 8, name="step", kind="retrieval", trace_id="ce" * 16, parent_id=bare.span_id,
               retrieved_context=(Chunk("below"),))  # fmt: skip
    store.evaluation(root, "precision", 0.25, explanation="why", inclusion_probability=0.1)
    store.evaluation(root, "whole", 1.0, label="all", evaluator_version="3", duration=0.5)
    store.evaluation(root, "polite", "yes", evaluator_kind="judge", usage=Usage(1, 2, 3, 0.5))
    store.evaluation(root, "polite", "no", evaluator_kind="decision", probability=0.875)
    store.evaluation(root, "passed", True, metadata={"model": "m", "nested": [{"a": None}]})
    store.evaluation(root, "broken", None, error=Failure("timeout", "late"))
    fields = [{"path": "lines[0].amount", "value": "3", "chance": 0.25}]
    store.evaluation(root, "extraction_risk", 0.25, metadata={"fields": fields})
    store.evaluation(root, "thumbs", True, evaluator_kind="human", metadata={"user": "u"})
    by_id = EvaluationEvent(
        "other-id", Target(None, root.span_id), Evaluation("stars", 5.0, evaluator_kind="human"),
        START + 77,
    )  # fmt: skip
    store.writer.write(Batch(evaluations=(by_id,)))
    store.not_run(root, "correctness", "sampled_out", "sample_rate 0.1")
    return store


def exported(llmeval, path, *options):
    done = llmeval("export", "--store", path, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sorted_rows(path):
    """Return all rows of the tables, without the numbers of their arrival."""
    with closing(sqlite3.connect(path)) as file:
        found = {}
        for table in ("spans", "evaluations", "feedback", "not_run", "fields"):
            cursor = file.execute(f"SELECT * FROM {table}")
            found[table] = sorted((row[1:] for row in cursor), key=repr)
        return found


def test_json_lines_come_back_as_they_were(llmeval, filled, tmp_path):
    """Every table has the same rows in the same order, and the next export has the same lines."""
    text = exported(llmeval, filled.path)
    (tmp_path / "day.jsonl").write_text(text, "utf-8")
    done = llmeval("import", "day.jsonl", "--store", "new/llmeval.db")
    assert (done.returncode, done.stderr) == (0, "")
    assert "imported 8 spans, 7 evaluations, 2 labels and 1 judge that did not run" in done.stdout
    assert sorted_rows(tmp_path / "new/llmeval.db") == sorted_rows(filled.path)
    assert exported(llmeval, "new/llmeval.db") == text


def test_a_second_import_adds_nothing(llmeval, filled, tmp_path):
    """Whether the same file comes twice, twice within one command, or into the store it is from."""
    (tmp_path / "day.jsonl").write_text(exported(llmeval, filled.path), "utf-8")
    before = sorted_rows(filled.path)
    done = llmeval("import", "day.jsonl", "day.jsonl", "--store", filled.path, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert not any(told["new"].values())
    assert told["already_there"] == {"spans": 16, "evaluations": 14, "feedback": 4, "not_run": 2}
    assert sorted_rows(filled.path) == before


def test_what_is_new_about_a_known_span_comes_in(llmeval, filled, tmp_path):
    """The span is there, and its evaluations are not all."""
    (tmp_path / "day.jsonl").write_text(exported(llmeval, filled.path), "utf-8")
    before = sorted_rows(filled.path)
    with closing(sqlite3.connect(filled.path)) as file:
        for table in ("evaluations", "feedback", "not_run", "fields"):
            file.execute(f"DELETE FROM {table}")
        file.commit()
    done = llmeval("import", "day.jsonl", "--store", filled.path, "--json")
    told = json.loads(done.stdout)
    assert told["new"] == {"spans": 0, "evaluations": 7, "feedback": 2, "not_run": 1}
    assert sorted_rows(filled.path) == before


@pytest.mark.parametrize("form", ["jsonl", "otlp"])
def test_other_content_under_the_same_ids_is_left_alone(llmeval, filled, tmp_path, form):
    """The line is named and nothing of it is stored; the store keeps what it had."""
    text = exported(llmeval, filled.path, "--format", form)
    text = text.replace(str(START), str(START + 5))
    (tmp_path / "other").write_text(text.splitlines()[0] + "\n", "utf-8")
    before = sorted_rows(filled.path)
    done = llmeval("import", "other", "--store", filled.path)
    assert done.returncode == 1
    assert done.stderr.startswith("line 1")
    assert f"the store has another span {'0a' * 8} in the trace {TRACE}" in done.stderr
    assert "left out: 1 span whose ids belong to others in the store" in done.stdout
    assert sorted_rows(filled.path) == before


def test_an_evaluation_with_anothers_id_is_left_alone(llmeval, filled, tmp_path):
    """Also where it is about a span of another trace that has the same span id."""
    row = json.loads(exported(llmeval, filled.path).splitlines()[0])
    row["evaluations"][0]["value"] = 0.75
    foreign = {**row, "trace_id": "ef" * 16}
    (tmp_path / "o.jsonl").write_text(f"{json.dumps(row)}\n{json.dumps(foreign)}\n", "utf-8")
    before = sorted_rows(filled.path)
    done = llmeval("import", "o.jsonl", "--store", filled.path, "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["new"]["spans"]) == (1, 1)
    assert told["conflicts"] == {"spans": 0, "evaluations": 8, "feedback": 1, "not_run": 1}
    after = sorted_rows(filled.path)
    assert {**after, "spans": before["spans"]} == before


def line(number=1, **changes):
    """Return a line as `export` writes it."""
    row = {
        "trace_id": f"{number:032x}", "span_id": f"{number:016x}", "name": "answer",
        "kind": "workflow", "start_ns": START, "end_ns": START + 5, "request": "q",
        "evaluations": [{"name": "e", "value": 0.5, "id": f"{number}-e", "timestamp_ns": START}],
    }  # fmt: skip
    return json.dumps({name: value for name, value in {**row, **changes}.items() if value != ...})


EVENT = {"name": "e", "value": 0.5, "id": "i", "timestamp_ns": START}
HOSTILE = {
    "an unfinished line": line()[:-9],
    "no object": "[1]",
    "another program's object": '{"level": "info"}',
    "bytes that are no UTF-8": b'{"trace_id": "\xff"}',
    "ten thousand brackets": "[" * 10_000,
    "ten thousand levels": line(request=...).replace('"name"', f'"request": {"[" * 10_000}{"]" * 10_000}, "name"', 1),
    "two hundred levels": line(request=json.loads(f"{'[' * 200}{']' * 200}")),
    "an id that is no hex": line(span_id="zz" * 8),
    "an id that is too long": line(trace_id="ab" * 17),
    "an id that is a number": line(span_id=17),
    "a parent that is no hex": line(parent_id="root"),
    "no end": line(end_ns=...),
    "a time beyond int64": line(start_ns=1 << 63),
    "a time before all times": line(start_ns=-1),
    "a time that is a text": line(start_ns="2026-01-01"),
    "a time that is not a number": line(start_ns=float("nan")),
    "a number of five thousand digits": line(start_ns=...).replace('"name"', f'"start_ns": {"9" * 5_000}, "name"', 1),
    "an unknown kind": line(kind="dream"),
    "a name that is a list": line(name=[]),
    "a name of a megabyte": line(name="n" * (1 << 20)),
    "tags that are a list": line(tags=["a"]),
    "tokens beyond int64": line(usage={"input_tokens": 1 << 63, "output_tokens": 0, "total_tokens": 0}),
    "tokens that are a text": line(usage={"input_tokens": "many"}),
    "a cost without an end": line(usage={"cost_usd": float("inf")}),
    "chunks that are a text": line(retrieved_context="chunk"),
    "a chunk that is a text": line(retrieved_context=["chunk"]),
    "a chunk whose content is a list": line(retrieved_context=[{"content": []}]),
    "links that are a mapping": line(links={"a": 1}),
    "facts that are a number": line(expected_facts=5),
    "a truth that is a list": line(expected_response=["a"]),
    "an own that is a list": line(own=[1]),
    "an error that is a text": line(error="no"),
    "a prompt that is a text": line(prompt="p"),
    "evaluations that are a mapping": line(evaluations={"a": 1}),
    "an evaluation that is a text": line(evaluations=["good"]),
    "an id with half a surrogate pair": line(evaluations=[{**EVENT, "id": "\ud800"}]),
    "an evaluation without an id": line(evaluations=[{**EVENT, "id": ""}]),
    "an evaluation without a time": line(evaluations=[{**EVENT, "timestamp_ns": None}]),
    "an evaluation at no time": line(evaluations=[{**EVENT, "timestamp_ns": 1 << 70}]),
    "a value that is a list": line(evaluations=[{**EVENT, "value": [1]}]),
    "a value that is not a number": line(evaluations=[{**EVENT, "value": float("nan")}]),
    "a value of a thousand digits": line(evaluations=[{**EVENT, "value": 10**999}]),
    "a chance that is a text": line(evaluations=[{**EVENT, "inclusion_probability": "all"}]),
    "an unknown kind of evaluator": line(evaluations=[{**EVENT, "evaluator_kind": "oracle"}]),
    "metadata that are a list": line(evaluations=[{**EVENT, "metadata": [1]}]),
    "an evaluation of another span": line(evaluations=[{**EVENT, "target": {"span_id": "ff" * 8}}]),
    "a reason that is a number": line(
        not_run=[{"evaluator": "e", "reason": 1, "id": "i", "timestamp_ns": START}]
    ),
}  # fmt: skip


@pytest.mark.parametrize("bad", HOSTILE.values(), ids=HOSTILE)
def test_a_line_that_is_odd_is_told_and_left_out_whole(llmeval, tmp_path, bad):
    """The lines around it come in, nothing of it does, and the store can be read afterwards."""
    data = bad if isinstance(bad, bytes) else bad.encode()
    good = [line(number).encode() for number in (2, 3)]
    (tmp_path / "day.jsonl").write_bytes(b"\n".join([good[0], data, good[1], b""]))
    done = llmeval("import", "day.jsonl", "--store", "new.db")
    assert done.returncode == 1
    assert done.stderr.startswith("line 2: ")
    assert len(done.stderr.splitlines()) == 1
    assert "imported 2 spans and 2 evaluations" in done.stdout
    assert "could not be read: 1 line" in done.stdout
    assert len(exported(llmeval, "new.db").splitlines()) == 2


@pytest.mark.parametrize(
    "odd",
    [
        {"request": "a\0b", "name": "n\0m", "session_id": "s\0"},
        {"request": "\ud800", "name": "\udfff", "tags": {"\ud800": "\udc00"}},
        {"request": {"nan": float("nan"), "big": 10**400}},
        {"attributes": {"deep": json.loads(f"{'[' * 90}{']' * 90}")}},
        {"request": "x" * 5_000_000},
        {"evaluations": [{**EVENT, "metadata": {"fields": 5, "scope": "session"}}]},
        {"evaluations": [{**EVENT, "metadata": {"fields": [{"path": 5}, 7], "n": "\ud800"}}]},
        {"metrics": {"cache_read_input_tokens": "many", "latency": float("nan")}},
    ],
)
def test_odd_content_comes_in_once_and_harms_nobody(llmeval, tmp_path, odd):
    """It is stored as capturing would store it, is known again, and every command reads it."""
    (tmp_path / "day.jsonl").write_text(line(**odd) + "\n", "utf-8")
    for expected in ("imported 1 span and 1 evaluation", "already there: 1 span and 1 evaluation"):
        done = llmeval("import", "day.jsonl", "--store", "new.db")
        assert (done.returncode, done.stderr) == (0, "")
        assert expected in done.stdout
    assert len(exported(llmeval, "new.db").splitlines()) == 1
    for command in ("report", "traces"):
        done = llmeval(command, "--store", "new.db")
        assert done.returncode == 0, done.stderr


def test_a_line_of_a_hundred_megabytes_costs_little_memory(process, tmp_path):
    """It is skipped unread, and the next one comes in."""
    with (tmp_path / "day.jsonl").open("w") as file:
        file.write('{"trace_id": "')
        for _ in range(100):
            file.write("x" * 1_000_000)
        file.write(f'"}}\n{line()}\n')
    done = process("import", "day.jsonl", "--store", "new.db")
    assert (done.returncode, done.stderr) == (1, "line 1: is longer than 32 MB\n")
    assert "imported 1 span" in done.stdout


def test_a_line_of_many_empty_lists_is_refused_before_it_takes_memory(llmeval, tmp_path):
    """Thirty megabytes of them would take a gigabyte."""
    (tmp_path / "day.jsonl").write_text(f'{{"span_id": [{"[]," * 8_000_000}[]]}}\n')
    done = llmeval("import", "day.jsonl", "--store", "new.db")
    assert (done.returncode, done.stderr) == (1, "line 1: holds more than 4,000,000 values\n")


@pytest.mark.parametrize(
    ("text", "last", "counted"),
    [
        ("\n" * 2_000_000, "line 1000001: is as empty as the 1,000,000 before", "1 line"),
        ("\t \r\n" * 1_200_000, "line 1000001: is as empty as the 1,000,000 before", "1 line"),
        (
            "1\n" * 150_000,
            "line 100000: cannot be read, nor can the 99,999 before",
            "100,000 lines",
        ),
        (
            "{}\n" * 150_000,
            "line 100000: cannot be read, nor can the 99,999 before",
            "100,000 lines",
        ),
    ],
    ids=["empty", "blank", "numbers", "objects"],
)
def test_a_small_file_of_nothing_but_lines_ends_soon(llmeval, tmp_path, text, last, counted):
    """The rest is not read, and the last line says so although no other is printed any more."""
    (tmp_path / "day.gz").write_bytes(gzip.compress(f"{line(1)}\n{text}{line(2)}\n".encode()))
    done = llmeval("import", "day.gz", "--store", "new.db")
    assert done.returncode == 1
    number = int(last.split()[1].rstrip(":")) + 1  # the line of the span stands before
    said = last.replace(last.split()[1], f"{number}:")
    assert done.stderr.splitlines()[-1] == f"{said}: what follows is not read"
    assert "imported 1 span" in done.stdout
    assert f"could not be read: {counted}" in done.stdout


def test_fields_of_a_newer_release_are_ignored_and_named(llmeval, tmp_path):
    """Everything that is known comes in, and the exit code says success."""
    event = {**EVENT, "mood": "good"}
    text = line(1, colour="red", evaluations=[event]) + "\n" + line(2, colour="blue") + "\n"
    (tmp_path / "day.jsonl").write_text(text)
    done = llmeval("import", "day.jsonl", "--store", "new.db")
    assert (done.returncode, done.stderr) == (0, "")
    assert "fields that this release does not know: colour (2 ×), mood (1 ×)" in done.stdout
    assert "imported 2 spans and 2 evaluations" in done.stdout


def test_the_first_twenty_lines_are_told_and_all_are_counted(llmeval, tmp_path):
    """A file of something else does not fill the terminal."""
    (tmp_path / "day.jsonl").write_text("\x1b[31m\n" * 1_000)
    done = llmeval("import", "day.jsonl", "--store", "new.db")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 21
    assert "\x1b" not in done.stderr
    assert "could not be read: 1,000 lines" in done.stdout


def test_compressed_files_and_standard_input_are_read(llmeval, filled, tmp_path):
    """By what they hold, not by their names; several files name themselves in what is told."""
    text = exported(llmeval, filled.path).encode()
    (tmp_path / "zipped").write_bytes(gzip.compress(text))
    (tmp_path / "broken").write_bytes(gzip.compress(text * 50)[:-200])
    done = llmeval("import", "zipped", "broken", "--store", "new.db", "--json")
    assert done.returncode == 1
    assert done.stderr.startswith("broken, line ")
    assert json.loads(done.stdout)["new"]["spans"] == 8
    done = subprocess.run(
        [sys.executable, "-m", "llmeval_sdk", "import", "-", "--store", tmp_path / "piped.db"],
        input=gzip.compress(text), capture_output=True, check=True, timeout=50,
    )  # fmt: skip
    assert b"imported 8 spans" in done.stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["missing.jsonl"], "missing.jsonl cannot be read"),
        (["."], ". cannot be read"),
        (["-", "-"], "pass - only once"),
        (["text", "--store", "text"], "is the store itself"),
        (["text", "--store", "other.db"], "another program"),
    ],
)
def test_what_cannot_run_says_why(llmeval, tmp_path, args, words):
    """With exit code 2, before anything was written."""
    (tmp_path / "text").write_text(line() + "\n")
    with closing(sqlite3.connect(tmp_path / "other.db")) as file:
        file.execute("CREATE TABLE t (x)")
    done = llmeval("import", *args)
    assert done.returncode == 2, done.stdout
    assert words in done.stderr


def test_a_killed_import_is_simply_run_again(llmeval, filled, tmp_path):
    """Whatever moment it is killed at, the second run completes it, with nothing twice."""
    rows = [line(number) for number in range(1, 22_001)]
    (tmp_path / "day.jsonl").write_text("\n".join(rows) + "\n")
    command = [sys.executable, "-m", "llmeval_sdk", "import", "day.jsonl", "--store", "new/s.db"]
    killed = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not spans_in(tmp_path / "new/s.db"):
        time.sleep(0.01)
    killed.kill()
    killed.wait()
    written = spans_in(tmp_path / "new/s.db")
    assert 0 < written < 22_000
    assert written % 10_000 == 0, "a batch is written whole or not at all"
    told = json.loads(llmeval("import", "day.jsonl", "--store", "new/s.db", "--json").stdout)
    assert told["new"] == {
        **told["new"],
        "spans": 22_000 - written,
        "evaluations": 22_000 - written,
    }
    found = sorted_rows(tmp_path / "new/s.db")
    assert (len(found["spans"]), len(found["evaluations"])) == (22_000, 22_000)


def spans_in(path):
    """Count the spans of a store that another process may be making just now."""
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as file:
            return file.execute("SELECT count(*) FROM spans").fetchone()[0]
    except sqlite3.Error:
        return 0


# -- OTLP -----------------------------------------------------------------------------


def test_parquet_is_refused_with_what_to_do(llmeval, filled, tmp_path):
    """It is for other tools and for `llmeval evaluate`; nothing of it is read as lines."""
    (tmp_path / "d.parquet").write_bytes(b"PAR1 and so on")
    done = llmeval("import", "d.parquet", "--store", "new.db")
    assert (done.returncode, "export JSON lines" in " ".join(done.stderr.split())) == (2, True)


def test_otlp_comes_back_as_far_as_it_carries(llmeval, filled, tmp_path):
    """Ids, times, names, texts, chunks, tags, evaluations and labels; twice is once."""
    (tmp_path / "o.jsonl").write_text(exported(llmeval, filled.path, "--format", "otlp"), "utf-8")
    for expected in ("imported 8 spans, 7", "already there: 8 spans, 7 evaluations and 2 labels"):
        done = llmeval("import", "o.jsonl", "--store", "new.db")
        assert (done.returncode, done.stderr) == (0, "")
        assert expected in done.stdout
    before = [json.loads(text) for text in exported(llmeval, filled.path).splitlines()]
    after = [json.loads(text) for text in exported(llmeval, "new.db").splitlines()]
    for old, new in zip(before, after, strict=True):
        lost = {name: value for name, value in old.items() if new.get(name) != value}
        lost.pop("not_run", None)
        evaluations = {e["id"]: e for e in lost.pop("evaluations", ())}
        assert set(lost) <= LOST.get(old["name"], set()), old["name"]
        for found in new.get("evaluations", ()):
            known = evaluations[found["id"]]
            differ = {name for name in {*known, *found} if known.get(name) != found.get(name)}
            assert differ <= {"usage"}, found
    told = llmeval("import", "o.jsonl", "--store", filled.path, "--json")
    assert not any(json.loads(told.stdout)["new"].values())


LOST = {
    "answer": {"value", "confidence", "field_config", "retrieval", "retrieved_context", "own",
               "total_usage", "feedback"},
    "ask": {"response", "prompt", "usage"},
    "broken": set(),
    "judging": {"links"},
    "bare": {"own"},
    "empty": {"extractions"},
}  # fmt: skip
"""What OTLP does not carry, by the name of the span."""


def otlp(spans=(), records=(), scope="other"):
    request = {}
    if spans:
        scoped = [{"scope": {"name": scope}, "spans": list(spans)}]
        request["resourceSpans"] = [{"scopeSpans": scoped}]
    if records:
        request["resourceLogs"] = [{"scopeLogs": [{"logRecords": list(records)}]}]
    return json.dumps(request)


def attributes(**given):
    return [
        {"key": name.replace("__", "."), "value": {"stringValue": value} if isinstance(value, str)
         else {"intValue": str(value)}}
        for name, value in given.items()
    ]  # fmt: skip


def foreign(number, parent=None, **about):
    """Return a span of another library, in JSON as a collector writes it."""
    span = {
        "traceId": "ab" * 16, "spanId": f"{number:016x}", "name": "step",
        "startTimeUnixNano": str(START + number), "endTimeUnixNano": str(START + 100),
        "kind": "SPAN_KIND_INTERNAL", "attributes": attributes(**about),
    }  # fmt: skip
    return {**span, "parentSpanId": f"{parent:016x}"} if parent else span


CHAT = {
    "gen_ai__operation__name": "chat", "gen_ai__request__model": "gpt-4o",
    "gen_ai__usage__input_tokens": 3, "gen_ai__usage__output_tokens": 4,
    "gen_ai__input__messages": '[{"role": "user", "parts": [{"type": "text", "content": "roof?"}]}]',
    "gen_ai__output__messages":
        '[{"role": "assistant", "parts": [{"type": "text", "content": "slate"}]}]',
}  # fmt: skip


def test_spans_of_other_libraries_come_in_if_they_speak_of_models(llmeval, tmp_path):
    """The rest of the trace is left out and counted; what was below it hangs from what is above.

    The children come first and in lines of their own, as exporters send them.
    """
    spans = [
        foreign(4, parent=3, **CHAT),
        foreign(3, parent=2, http__method="POST"),
        foreign(2, parent=1, gen_ai__operation__name="invoke_agent"),
        foreign(1, http__method="GET"),
    ]
    (tmp_path / "o.jsonl").write_text("\n".join(otlp([span]) for span in spans) + "\n")
    done = llmeval("import", "o.jsonl", "--store", "new.db")
    assert (done.returncode, done.stderr) == (0, "")
    assert "imported 2 spans" in done.stdout
    assert "nothing for a store: 2 × span that speaks of no model" in done.stdout
    rows = {row["kind"]: row for row in map(json.loads, exported(llmeval, "new.db").splitlines())}
    assert rows["llm"]["parent_id"] == f"{2:016x}"
    assert "parent_id" not in rows["agent"]
    assert (rows["agent"]["response"], rows["llm"]["response"]) == ("slate", "slate")
    assert rows["llm"]["usage"]["input_tokens"] == 3
    assert rows["llm"]["start_ns"] == START + 4
    assert "already there: 2 spans" in llmeval("import", "o.jsonl", "--store", "new.db").stdout


class _Counted(io.BytesIO):
    """Lines that count how many were taken."""

    taken = 0

    def readline(self, *args):
        self.taken += 1
        return super().readline(*args)


@pytest.mark.parametrize("at_once", [1, 5])
def test_spans_of_other_libraries_wait_within_bytes(monkeypatch, at_once):
    """Those that have waited longest come in when the lines of all have so many bytes."""
    monkeypatch.setattr(history, "MAX_WAITING_BYTES", 1 << 20)
    long = {**CHAT, "gen_ai__input__messages": "x" * 50_000}
    spans = [{**foreign(n, **long), "traceId": f"{n:032x}"} for n in range(1, 201)]
    lines = [otlp(spans[n : n + at_once]) for n in range(0, 200, at_once)]
    file = _Counted("\n".join(lines).encode())
    items = history.HistoryReader().lines(file)
    first = next(items)
    assert first.span is not None
    assert file.taken * at_once < 40, "a fifth of the file had to wait"
    assert len([first, *items]) == 200


def test_ids_in_base64_and_words_of_enumerations_are_read(llmeval, tmp_path):
    """As encoders of protobuf write them that do not know OTLP."""
    span = foreign(7, **CHAT) | {
        "traceId": "q6urq6urq6urq6urq6urqw==", "spanId": "AAAAAAAAAAc=",
        "status": {"code": "STATUS_CODE_ERROR", "message": "no"},
    }  # fmt: skip
    (tmp_path / "o.jsonl").write_text(otlp([span]))
    assert llmeval("import", "o.jsonl", "--store", "new.db").returncode == 0
    (row,) = map(json.loads, exported(llmeval, "new.db").splitlines())
    assert (row["trace_id"], row["span_id"]) == ("ab" * 16, f"{7:016x}")
    assert row["error"] == {"type": "error", "message": "no"}


def test_evaluations_that_came_without_an_id_stand_once(llmeval, filled, tmp_path):
    """A collector's file of live traffic has none; the same one from the store is the same."""
    text = exported(llmeval, filled.path, "--format", "otlp")
    live = [json.loads(each) for each in text.splitlines()]
    for request in live:
        for resource in request.get("resourceLogs", ()):
            for record in resource["scopeLogs"][0]["logRecords"]:
                record["attributes"] = [
                    each for each in record["attributes"] if each["key"] != "llmeval.evaluation.id"
                ]
    (tmp_path / "live.jsonl").write_text("\n".join(map(json.dumps, live)))
    (tmp_path / "day.jsonl").write_text(exported(llmeval, filled.path), "utf-8")
    told = json.loads(llmeval("import", "live.jsonl", "--store", filled.path, "--json").stdout)
    assert not any(told["new"].values())
    told = json.loads(llmeval("import", "live.jsonl", "--store", "new.db", "--json").stdout)
    assert (told["new"]["evaluations"], told["new"]["feedback"]) == (7, 2)
    told = json.loads(llmeval("import", "live.jsonl", "--store", "new.db", "--json").stdout)
    assert not any(told["new"].values())
    told = json.loads(llmeval("import", "day.jsonl", "--store", "new.db", "--json").stdout)
    assert (told["new"]["evaluations"], told["new"]["feedback"]) == (0, 0)


@pytest.mark.parametrize(
    "bad",
    [
        {"traceId": "nothing"}, {"startTimeUnixNano": "soon"}, {"startTimeUnixNano": "1" * 30},
        {"attributes": 5}, {"attributes": [5]}, {"attributes": [{"key": "a", "value": 5}] * 2 + [7]},
        {"events": [5]}, {"links": [5]}, {"status": 5}, {"flags": "all"},
        {"attributes": attributes(llmeval__span__kind="dream")},
        {"attributes": attributes(llmeval__span__kind="llm", metadata="[")},
        {"attributes": attributes(llmeval__span__kind="llm", metadata="[1]")},
        {"attributes": attributes(llmeval__span__kind="retrieval", output__value='["a"]')},
        {"attributes": attributes(llmeval__span__kind="task", llmeval__extractions="5")},
        {"attributes": attributes(llmeval__span__kind="task", session__id=5)},
    ],
    ids=str,
)  # fmt: skip
def test_an_odd_span_does_not_spoil_its_request(llmeval, tmp_path, bad):
    """It is named by its place in the line; the others come in."""
    spans = [foreign(1, **CHAT), {**foreign(2, **CHAT), **bad}, foreign(3, **CHAT)]
    (tmp_path / "o.jsonl").write_text(otlp(spans) + "\n")
    done = llmeval("import", "o.jsonl", "--store", "new.db")
    assert done.returncode == 1
    assert done.stderr.startswith("line 1, span 2: ")
    assert "imported 2 spans" in done.stdout
    assert len(exported(llmeval, "new.db").splitlines()) == 2


def test_only_evaluations_of_ours_are_read_from_logs(llmeval, tmp_path):
    """Other records are counted, odd ones named; metrics are nothing for a store."""
    ours = attributes(gen_ai__evaluation__name="e", llmeval__evaluator__kind="code")
    records = [
        {"body": {"stringValue": "hello"}},
        {"eventName": "gen_ai.evaluation.result", "attributes": attributes(gen_ai__evaluation__name="e")},
        {"eventName": "gen_ai.evaluation.result", "attributes": ours, "timeUnixNano": str(START),
         "traceId": "ab" * 16, "spanId": "cd" * 8},
        {"eventName": "gen_ai.evaluation.result", "attributes": ours, "timeUnixNano": "-1"},
        {"eventName": "gen_ai.evaluation.result", "attributes": ours, "timeUnixNano": str(START)},
    ]  # fmt: skip
    (tmp_path / "o.jsonl").write_text(otlp(records=records) + '\n{"resourceMetrics": [{}]}\n')
    for new in (2, 0):
        done = llmeval("import", "o.jsonl", "--store", "new.db", "--json")
        assert done.returncode == 1
        assert done.stderr.startswith("line 1, log record 4: ")
        told = json.loads(done.stdout)
        assert told["new"]["evaluations"] == new
        assert told["not_for_a_store"] == {
            "log record that is no evaluation": 2, "request of metrics": 1,
        }  # fmt: skip


@pytest.mark.parametrize("form", ["jsonl", "otlp"])
def test_what_an_app_recorded_comes_back(llmeval, tmp_path, form):
    """The store that was frozen has what real calls, judges and people left."""
    (tmp_path / "old").mkdir(mode=0o700)
    shutil.copyfile(FROZEN, tmp_path / "old" / "store.db")
    assert (
        llmeval("export", "--store", "old/store.db", "--format", form, "--out", "f").returncode == 0
    )
    done = llmeval("import", "f", "--store", "new.db")
    assert (done.returncode, done.stderr) == (0, "")
    before = [json.loads(text) for text in exported(llmeval, "old/store.db").splitlines()]
    after = [json.loads(text) for text in exported(llmeval, "new.db").splitlines()]
    changed = {
        name
        for old, new in zip(before, after, strict=True)
        for name in old.keys() | new.keys()
        if old.get(name) != new.get(name) and "llmeval.judge" not in old.get("tags", {})
    }
    assert (
        changed
        <= {
            "jsonl": set(),
            "otlp": {
                "response", "prompt", "own", "not_run", "evaluations", "feedback", "total_usage",
                "value", "confidence", "field_config", "retrieval",
            },
        }[form]
    )  # fmt: skip


FROZEN = Path(__file__).parents[1] / "frozen" / "0.1.0" / "data" / "store.db"
