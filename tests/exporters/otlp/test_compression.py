"""What leaves by OTLP is compressed, unless that was ruled out or the server cannot read it."""

import gzip
from random import Random

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.config import from_environment
from llmeval_sdk.exporters import http
from llmeval_sdk.exporters.batches import MAX_BODY, OtlpWriter, Progress
from llmeval_sdk.exporters.otlp.exporter import endpoints
from llmeval_sdk.model import Batch, Chunk, SpanData


OTLP = "OTEL_EXPORTER_OTLP_"


def send(url, **options):
    """One trace with a score, by an exporter of its own."""
    llmeval.configure(exporters=["otlp"], otlp_endpoint=url, **options)
    with llmeval.task("t", request="word " * 900):
        llmeval.submit_evaluation(label="mine", value=0.5)
    llmeval.flush(30)


def codings(collector):
    return [headers.get("content-encoding") for _, headers, _ in collector.requests]


@pytest.fixture(autouse=True)
def no_place_is_known(monkeypatch):
    monkeypatch.setattr(http, "_read_no_gzip", set())


def refusing(collector, status):
    """Have the collector answer so to what is compressed."""
    receive, sizes = collector.receive, []

    def instead(path, headers, body):
        if headers.get("content-encoding") == "gzip":
            sizes.append(len(body))
            return status, {}, b"cannot read that"
        return receive(path, headers, body)

    collector.receive = instead
    return sizes


def test_spans_and_scores_are_compressed_by_default(collector):
    """A text stands in a span more than once."""
    send(collector.url)
    assert codings(collector) == ["gzip", "gzip"]
    assert collector.span_count == collector.log_count == 1
    _, headers, size = collector.requests[0]
    assert int(headers["content-length"]) < size / 4


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("COMPRESSION", [None, None]),
        ("TRACES_COMPRESSION", [None, "gzip"]),
        ("LOGS_COMPRESSION", ["gzip", None]),
    ],
)  # fmt: skip
def test_the_variables_rule_it_out(collector, monkeypatch, variable, expected):
    """For all, for spans, or for scores."""
    monkeypatch.setenv(OTLP + variable, "none")
    send(collector.url)
    assert codings(collector) == expected
    assert collector.span_count == collector.log_count == 1


@pytest.mark.parametrize("status", [400, 415])
def test_a_server_that_cannot_read_it_gets_everything_once_and_plain(collector, status):
    """What it refused is sent again at once; later exporters of the process know it, too."""
    refused = refusing(collector, status)
    for seconds in (5.0, 6.0, 7.0):  # each makes another exporter
        send(collector.url, otlp_timeout=seconds)
    assert len(refused) == 2  # one of spans, one of scores
    assert codings(collector) == [None] * 6
    assert collector.span_count == collector.log_count == 3
    assert len({span.span_id for span in collector.spans}) == 3
    assert not llmeval.stats().dropped


def test_a_server_that_unzips_is_not_asked_twice_about_a_bad_request(collector):
    """A 400 then has another reason, and a second request would double all of them."""
    send(collector.url)
    collector.requests.clear()
    collector.always = 400, {}, b"bad"
    send(collector.url)
    assert codings(collector) == ["gzip", "gzip"]


def test_a_request_is_no_larger_than_before_it_is_compressed(collector):
    """Servers count what they unzip."""
    writer, progress = OtlpWriter(from_environment({})), Progress(Batch((), ()))
    where = endpoints(from_environment({}, otlp_endpoint=collector.url)).traces
    writer.steps(where, range(40), lambda _: b"\x0a" + b"x" * (MAX_BODY // 8), progress)
    assert [len(step.records) for step in progress.steps] == [7] * 5 + [5]


def test_texts_that_stand_there_three_times_shrink_by_more_than_five():
    """Retrieved passages are documents, output for OpenInference, and part of a prompt."""
    from llmeval_sdk.exporters.otlp.wire import span_bytes

    letters, chance = "abcdefghijklmnopqrstuvwxyz", Random(3)
    words = ["".join(chance.choices(letters, k=chance.randrange(2, 10))) for _ in range(9_000)]
    whole = b""
    for number in range(20):
        passages = [" ".join(chance.choices(words, k=250)) for _ in range(7)]
        found = tuple(Chunk(content=text, chunk_id=f"c{at}") for at, text in enumerate(passages))
        prompt = {"messages": [{"role": "user", "content": "\n\n".join(passages)}]}
        ids = f"{number:032x}", f"{number:016x}", None
        for kind, request, context in (("retrieval", "Why?", found), ("llm", prompt, None)):
            span = SpanData(*ids, kind, kind, 1, 2, request=request, retrieved_context=context)
            whole += span_bytes(span)
    assert len(gzip.compress(whole, 1)) < len(whole) / 3.5
