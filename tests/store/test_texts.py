"""A long text stands in the store once a day, and goes with the last span that has it."""

import json
import random
import sqlite3
import subprocess
import sys
import time
import zlib
from contextlib import closing

import pytest

from llmeval_sdk.model import Batch, Chunk
from llmeval_sdk.store import encode, texts
from llmeval_sdk.store.damage import damage_of
from llmeval_sdk.store.dump import DumpScope, dump
from llmeval_sdk.store.forgetting import belongings_of, belongings_of_traces, forget
from llmeval_sdk.store.history import arrival, take_in
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.span_lists import Query, list_page
from llmeval_sdk.store.traces import longest_calls, texts_of
from llmeval_sdk.store.writer import StoreWriter


DAY = 86_400 * 10**9


def kept(path):
    """Return the texts that a store keeps by themselves, and how many spans have each."""
    with closing(sqlite3.connect(path)) as raw:
        rows = raw.execute("SELECT body, uses FROM text_uses JOIN texts ON seq = text").fetchall()
        assert raw.execute("SELECT count(*) FROM texts").fetchone() == (len(rows),)
    return {zlib.decompress(body, -15).decode(): uses for body, uses in rows}


def spans_in(path):
    with closing(StoreReader(path)) as reader:
        return [stored.span for stored in dump(reader, DumpScope())]


def retrieval(make, passages, **given):
    chunks = tuple(Chunk(text, chunk_id=str(place)) for place, text in enumerate(passages))
    return make.span("search", kind="retrieval", retrieved_context=chunks, **given)


def prompted(make, passages, **given):
    prompt = "By these passages:\n\n" + "\n\n".join(f"[{n}] {p}" for n, p in enumerate(passages))
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": prompt}]
    return make.span("chat", kind="llm", request={"messages": messages}, **given)


def belongings_of_trace(path, trace):
    with closing(StoreReader(path)) as reader:
        return reader.read(lambda c: belongings_of_traces(c, [trace]))


def test_a_passage_stands_once_however_many_spans_have_it(writer, path, make):
    """It is written once for a retrieval, a prompt that repeats it, and the next request."""
    passages = [f"It is “{n}” \\ \n\x00 {make.text(1_500)}" for n in range(3)]
    spans = []
    for _ in range(2):
        first = retrieval(make, passages)
        spans += (first, prompted(make, passages[::-1], trace=first.trace_id))
        writer.write(Batch((spans[-2],)))  # the prompt comes with a later batch
        writer.write(Batch((spans[-1],)))
    assert list(kept(path).values()) == [4, 4, 4]
    assert spans_in(path) == spans
    with closing(StoreReader(path)) as reader:
        assert reader.span(spans[3].span_id) == spans[3]
        assert reader.trace(spans[0].trace_id) == tuple(spans[:2])


def test_every_text_comes_back_as_it_was(writer, path, make):
    """Quotation marks, backslashes, controls, surrogates and what looks like a key change nothing."""
    chance = random.Random(7)
    pieces = [
        '"', "\\", '\\"', "\n", "\x00", "\x1f", "\x1f" + "a" * 22 + "\x1f", "é", "𝄞", "a" * 600,
        'x" ' * 300, "\\" * 700, "\x1f" * 600, '{"content":"', make.text(2_000),
    ]  # fmt: skip
    known = [make.text(1_500) for _ in range(3)]
    spans = []
    for number in range(150):
        parts = chance.choices([*pieces, *known], k=chance.randint(0, 12))
        text = "".join(parts)
        spans.append(
            make.span(
                trace=f"{number // 3 + 1:032x}",
                request=chance.choice([text, {"messages": parts}, [[text], {text: parts}]]),
                response=chance.choice([text, None, {"a": text}]),
                attributes={"prompt": text, text: 1},
                retrieved_context=tuple(Chunk(part, metadata={"of": text}) for part in parts),
            )
        )
    for start in range(0, len(spans), 20):
        writer.write(Batch(tuple(spans[start : start + 20])))
    assert spans_in(path) == spans
    assert damage_of(path) is None


def test_half_a_surrogate_pair_in_a_long_text_becomes_a_question_mark(writer, make):
    """It is stored as in a short text."""
    text = make.text(2_000)
    span = make.span(request=f"{text}\ud83d", response=[text, f"\ude00{text}"])
    writer.write(Batch((span,)))
    with closing(StoreReader(writer.path)) as reader:
        found = reader.span(span.span_id)
    assert (found.request, found.response) == (f"{text}?", [text, f"?{text}"])


def test_huge_values_come_back_whole(writer, path, make):
    """Five megabytes of text, ten thousand passages and one passage very often."""
    long, passage = make.text(50_000) * 100, make.text(1_500)
    quotes = '"' * 400_000
    spans = [
        make.span(request=long, response=long + "x"),
        retrieval(make, [f"{n} {passage[:600]}" for n in range(10_000)]),
        make.span(request=[passage] * 10_000),
        make.span(request="\n".join([passage] * 5_000), attributes={"a": quotes, "b": "\\" * 200_000}),
    ]  # fmt: skip
    writer.write(Batch(tuple(spans)))
    assert spans_in(path) == spans


def test_the_last_span_takes_its_text_along(writer, path, make):
    """A text stays while any trace has it, and then nothing is left: no text, no key, no byte."""
    shared, own = f"shared {make.text(3_000)}", f"private {make.text(3_000)}"
    one = retrieval(make, [shared, own], tags={"user_id": "u-1"})
    two = retrieval(make, [shared], tags={"user_id": "u-2"})
    writer.write(Batch((one, two)))
    writer.close()
    for user, left in (("u-1", {shared: 1}), ("u-2", {})):
        with closing(sqlite3.connect(path)) as raw:
            (before,) = raw.execute("SELECT group_concat(key) FROM text_uses").fetchone()
            bodies = [body for (body,) in raw.execute("SELECT body FROM texts")]
        with closing(StoreReader(path)) as reader:
            theirs = reader.read(lambda c, user=user: belongings_of(c, [user]))
        forget(path, theirs)
        assert kept(path) == left
        held = b"".join(each.read_bytes() for each in path.parent.glob("llmeval.db*"))
        with closing(sqlite3.connect(path)) as raw:
            after = {key for (key,) in raw.execute("SELECT key FROM text_uses")}
        for key in set(before.split(",")) - after:
            assert key.encode() not in held
        gone = [body for body in bodies if zlib.decompress(body, -15).decode() not in left]
        assert gone
        for body in gone:
            assert all(body[place : place + 40] not in held for place in (0, 500, 2_000))


def test_a_span_that_is_written_again_counts_once(writer, path, make):
    """Delivered twice, in one batch or two, it has its text once; another text takes its place."""
    first, second = make.text(1_500), make.text(1_500)
    span = make.span(request=first)
    writer.write(Batch((span, span)))
    writer.write(Batch((span,)))
    assert kept(path) == {first: 1}
    again = make.span(request=second, trace=span.trace_id, span_id=span.span_id)
    writer.write(Batch((span, again)))
    assert kept(path) == {second: 1}
    short = make.span(request="short", trace=span.trace_id, span_id=span.span_id)
    writer.write(Batch((short,)))
    assert kept(path) == {}


def test_a_text_of_another_day_is_another_text(path, make):
    """So what goes by age takes its texts along, although newer traces have the same."""
    text, now = make.text(2_000), time.time_ns()
    spans = make.span(request=text), make.span(request=text, start_ns=now - 40 * DAY)
    with closing(StoreWriter(path, max_days=0)) as writer:
        writer.write(Batch(spans))
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("SELECT uses FROM text_uses").fetchall() == [(1,), (1,)]
    with closing(StoreWriter(path)) as writer:
        assert writer.prune() == 1
    assert kept(path) == {text: 1}


def test_the_size_counts_texts(path, make):
    """Traces go, the oldest first, until texts and rows keep to the bound; the newest are whole."""
    batches = [Batch((retrieval(make, [make.text(1_500) for _ in range(7)]),)) for _ in range(300)]
    with closing(StoreWriter(path, max_bytes=1_500_000)) as writer:
        for batch in batches:
            writer.write(batch)
        writer.settle()
    left = spans_in(path)
    assert 50 < len(left) < 250
    assert left == [batch.spans[0] for batch in batches[-len(left) :]]
    assert len(kept(path)) == 7 * len(left)
    assert path.stat().st_size < 1_650_000


def test_a_bound_below_one_trace_keeps_nothing(path, make):
    """Writing goes on, and no text stays behind."""
    with closing(StoreWriter(path, max_bytes=1)) as writer:
        for _ in range(5):
            writer.write(Batch((retrieval(make, [make.text(5_000)]),)))
    assert spans_in(path) == []
    assert kept(path) == {}


def test_a_trace_whose_beginning_was_pruned_still_gets_its_texts(path, make):
    """What is remembered of a trace is written again when the store has it no longer."""
    passage = make.text(2_000)
    first = retrieval(make, [passage])
    later = prompted(make, [passage], trace=first.trace_id)
    with closing(StoreWriter(path)) as writer:
        writer.write(Batch((first,)))
        forget(path, belongings_of_trace(path, first.trace_id))
        writer.write(Batch((later,)))
    assert spans_in(path) == [later]


WRITER = """
import sys
from llmeval_sdk.model import Batch, SpanData
from llmeval_sdk.store.writer import StoreWriter
writer = StoreWriter(sys.argv[1], max_days=0, busy_timeout=60)
for n in range(40):
    texts = [f"passage {p} " * 150 for p in range(n % 7, n % 7 + 5)]
    writer.write(Batch((SpanData(f"{n:031x}{sys.argv[2]}", f"{n:015x}{sys.argv[2]}", None, "s", "task", 1, 2, texts),)))
writer.close()
"""


def test_processes_that_write_the_same_texts_share_them(path, make):
    """Three processes write the same passages at once: each stands there once, and all count."""
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(n)]) for n in range(3)
    ]
    assert [process.wait(120) for process in running] == [0, 0, 0]
    assert sum(kept(path).values()) == 3 * 40 * 5
    assert len(kept(path)) == 11
    assert sum(len(span.request) for span in spans_in(path)) == 3 * 40 * 5


def test_a_store_of_the_release_before_is_read_and_written(path, make):
    """Its rows stay as they are, are found and deleted, and new ones share their texts."""
    old, new = (prompted(make, [make.text(2_000)]) for _ in range(2))
    with closing(StoreWriter(path)) as writer:
        writer.write(Batch((make.span(),)))
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript("DROP TABLE texts; DROP TABLE text_uses; PRAGMA user_version = 5")
        columns, row = encode.COLUMNS["spans"], encode.span_row(old)
        raw.execute(
            f"INSERT INTO spans ({','.join(columns)}) VALUES ({','.join('?' * len(row))})", row
        )
        raw.commit()
    assert old in spans_in(path)
    with closing(StoreWriter(path)) as writer:
        writer.write(Batch((new, old)))
    assert {span.span_id for span in spans_in(path)} >= {old.span_id, new.span_id}
    assert len(kept(path)) == 2
    forget(path, belongings_of_trace(path, old.trace_id))
    assert len(kept(path)) == 1


def test_lists_and_searches_see_whole_texts(writer, path, make):
    """A list shows the beginning of a long text, and a filter finds what stands across its bounds."""
    passages = [f"{name} {make.text(1_500)} of {name}" for name in ("Alpha", "Beta")]
    first = retrieval(make, passages)
    chat = prompted(make, passages, trace=first.trace_id, parent_id=first.span_id)
    answer = make.span("answer", request=passages[0], response=passages[1])
    writer.write(Batch((first, chat, answer)))

    def found(text):
        with closing(StoreReader(path)) as reader:
            page = reader.read(lambda c: list_page(c, Query(text=text)))
        return {item.span_id: item for item in page.items}

    assert found("passages:\n\n[0] alpha").keys() == {first.span_id}
    assert found("of beta").keys() == {first.span_id, answer.span_id}
    assert found(passages[1][200:1_000]).keys() == {first.span_id, answer.span_id}
    assert not found("gamma")
    item = found("Alpha")[answer.span_id]
    assert item.request == json.dumps(passages[0])[:300]
    assert item.response == json.dumps(passages[1])[:300]
    with closing(StoreReader(path)) as reader:
        read = reader.read(lambda c: texts_of(c, chat.trace_id, [chat.span_id]))[chat.span_id]
        assert json.loads(read.request) == chat.request
        assert reader.read(lambda c: longest_calls(c, chat.trace_id)) == [chat.span_id]


def test_an_import_shares_texts_too(path, make):
    """What is imported twice is known, and its texts stand once."""
    passages = [make.text(1_500) for _ in range(3)]
    spans = [retrieval(make, passages) for _ in range(3)]
    with closing(StoreWriter(path, 0, 0)) as importer:
        for new in (3, 0):
            arrivals = [arrival("line", span) for span in spans]
            assert take_in(importer, arrivals).new["spans"] == new
    assert list(kept(path).values()) == [3, 3, 3]
    assert spans_in(path) == spans


@pytest.mark.parametrize(
    "spoil",
    [
        "DELETE FROM texts",
        "UPDATE texts SET body = x'00ff'",
        "UPDATE texts SET body = 'words'",
        "UPDATE text_uses SET text = 99",
    ],
)
def test_a_text_that_is_lost_costs_lists_nothing(writer, path, make, spoil):
    """The file is whole, and only its span cannot be read."""
    writer.write(Batch((make.span(request=make.text(2_000)),)))
    writer.close()
    with closing(sqlite3.connect(path)) as raw:
        raw.execute(spoil)
        raw.commit()
    assert damage_of(path) is None
    with closing(StoreReader(path)) as reader:
        assert len(reader.read(lambda c: list_page(c, Query())).items) == 1


def test_a_small_file_cannot_ask_for_endless_texts(writer, path, make):
    """Of keys of a foreign file, as many are replaced as a column may be long."""
    span = make.span(request=make.text(2_000))
    writer.write(Batch((span,)))
    writer.close()
    with closing(sqlite3.connect(path)) as raw:
        bomb = zlib.compressobj(9, zlib.DEFLATED, -12)
        body = bomb.compress(b"x" * (30 << 20)) + bomb.flush()
        raw.execute("UPDATE texts SET body = ?", (body,))
        raw.execute("UPDATE spans SET request = replace(hex(zeroblob(4000)), '00', request)")
        raw.commit()
    with closing(StoreReader(path)) as reader, pytest.raises(ValueError, match="char"):
        reader.span(span.span_id)


def test_other_texts_of_a_trace_are_forgotten_in_turn(make):
    """A writer remembers a few megabytes, however many traces it sees."""
    long_texts, bodies = texts.LongTexts(), {}
    for _ in range(400):
        long_texts.taken_out(encode.span_row(make.span(request=make.text(300) * 100)), bodies)
    assert sum(map(len, bodies.values())) > 3 * texts.REMEMBERED // 2
    assert long_texts._characters <= texts.REMEMBERED


def test_traces_without_a_long_text_are_not_remembered(writer, make):
    """However many there are: only the characters of long texts are bounded."""
    for number in range(20):
        writer.write(
            Batch((make.span("answer", request=["short text"] * 500, trace=f"{number:032x}"),))
        )
    assert not writer._texts._of_traces
