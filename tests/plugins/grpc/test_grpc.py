"""OTLP over gRPC: what arrives at a real gRPC server, and what becomes of what it refuses."""

import subprocess
import sys

import pytest
import wrapt


pytest.importorskip("grpc", reason="needs grpcio")
from far_ends import unused_port
from grpc_collector import counting_relay, grpc_collector

import llmeval_sdk as llmeval
from llmeval_sdk.config import from_environment
from llmeval_sdk.errors import ConfigurationError, ExportError, MissingExtraError
from llmeval_sdk.exporters.otlp import make
from llmeval_sdk.model import Batch, Evaluation, EvaluationEvent, SpanData, Target
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.plugins.grpc import exporter as _grpc


TRACE, SPAN = "a" * 32, "b" * 16


@pytest.fixture(scope="module")
def shared_far_end():
    with grpc_collector() as running:
        yield running


@pytest.fixture
def far_end(shared_far_end):
    """Return a gRPC collector that nothing arrived at."""
    shared_far_end.forget()
    return shared_far_end


@llmeval.workflow
def answer(question):
    return "Slate."


def span(number=0, text="a roof"):
    return SpanData(TRACE, f"{number:016x}", None, f"answer {number}", "workflow", 1, 2, text)


def score(name="polite"):
    target = Target(TRACE, SPAN, "answer", "workflow")
    return EvaluationEvent(f"{SPAN}-{name}", target, Evaluation(name, 1.0), 1)


def exporter(far_end, **options):
    options = {"otlp_endpoint": far_end.url, "otlp_protocol": "grpc", **options}
    return make(from_environment({}, **options))


def test_the_environment_alone_sends_spans_and_scores_over_grpc(far_end, monkeypatch):
    """The standard variables say all of it; headers arrive as metadata."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", far_end.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "X-Api-Key=se%20cret")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-for=spans")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "surveyor")
    answer("Which roof?")
    with llmeval.workflow("asked", request="q"):
        llmeval.submit_evaluation(label="nice", value=1.0)
    stats = runtime.flush(20).exporters["otlp"]
    assert stats.delivered == stats.created > 0
    seen = far_end.ask()
    assert "invoke_workflow answer" in seen["spans"]
    assert seen["resources"][0]["service.name"] == "surveyor"
    assert "nice" in [log["gen_ai.evaluation.name"] for log in seen["logs"]]
    assert seen["metadata"]["traces"]["x-api-key"] == "se cret"
    assert seen["metadata"]["traces"]["x-for"] == "spans"
    assert "x-for" not in seen["metadata"]["logs"]


def test_messages_are_compressed_where_that_is_asked_for(far_end):
    """A long text takes a fraction of its bytes on the wire, and arrives whole."""
    text = "a roof of slate " * 20_000
    with counting_relay(far_end.port) as (port, sent):
        sender = exporter(
            far_end, otlp_endpoint=f"http://127.0.0.1:{port}", otlp_compression="gzip"
        )
        assert not sender.export(Batch((span(text=text),)))
        assert far_end.ask()["attributes"]["invoke_workflow answer 0"]["input.value"] == text
        assert sent() < len(text) / 10
        sender.close(1.0)


def test_each_signal_may_have_its_own_protocol(far_end, collector):
    """Spans over gRPC, scores over HTTP: each at its own address."""
    both = exporter(
        far_end, otlp_protocol="http/protobuf", otlp_endpoint=collector.url,
        otlp_traces_protocol="grpc", otlp_traces_endpoint=far_end.url,
    )  # fmt: skip
    assert not both.export(Batch((span(),), (score(),)))
    assert [path for path, _, _ in collector.requests] == ["/v1/logs"]
    assert far_end.ask()["calls"] == {"traces": 1, "logs": 0}
    both.close(1.0)


@pytest.mark.parametrize(
    ("address", "insecure", "expected"),
    [
        ("http://host:4317", None, ("host:4317", False)),
        ("http://host", None, ("host:4317", False)),
        ("https://host:4317/", None, ("host:4317", True)),
        ("https://host", True, ("host:443", True)),
        ("https://host:4317/v1/traces", None, ("host:4317", True)),
        ("host:4317", None, ("host:4317", True)),
        ("host:4317", True, ("host:4317", False)),
        ("localhost:4317", True, ("localhost:4317", False)),
        ("http://[::1]:4317", None, ("[::1]:4317", False)),
        ("http://user:secret@host:1", None, ("host:1", False)),
    ],
)
def test_an_address_says_where_and_whether_it_is_encrypted(address, insecure, expected):
    """The scheme decides; without one OTEL_EXPORTER_OTLP_INSECURE does, as the specification has it."""
    env = {} if insecure is None else {"OTEL_EXPORTER_OTLP_INSECURE": str(insecure)}
    assert _grpc._target(address, from_environment(env), "traces") == expected


def test_one_signal_may_be_encrypted_and_the_other_not():
    """The variable of a signal wins over the common one."""
    settings = from_environment(
        {"OTEL_EXPORTER_OTLP_INSECURE": "true", "OTEL_EXPORTER_OTLP_LOGS_INSECURE": "false"}
    )
    assert _grpc._target("host:1", settings, "traces") == ("host:1", False)
    assert _grpc._target("host:1", settings, "logs") == ("host:1", True)


@pytest.mark.parametrize(
    "address", ["", "unix:///run/otel", "http://", "host:port", "http://h:99999"]
)
def test_what_is_no_address_is_refused_at_configure(address):
    """With an example of one; a password in it is not shown."""
    if not address:
        return
    with pytest.raises(ConfigurationError, match=r"gRPC server|expected an address"):
        make(from_environment({}, otlp_protocol="grpc", otlp_endpoint=address))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"otlp_headers": {"x-key": "line\nbreak"}}, "otlp_headers=.*printable ASCII"),
        ({"otlp_headers": {"trace-bin": "x"}}, "trace-bin.*printable ASCII"),
        ({"otlp_certificate": "/no/such.pem", "otlp_endpoint": "https://h"}, "/no/such.pem"),
    ],
)
def test_what_cannot_work_is_told_at_configure(options, words):
    """Not by the first failed request, which nobody watches."""
    with pytest.raises(ConfigurationError, match=words):
        llmeval.configure(exporters=["otlp"], otlp_protocol="grpc", **options)


def test_a_missing_package_is_named_with_the_line_that_installs_it(monkeypatch):
    """At configure(), where a person watches."""
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'llmeval-inprocess\[grpc\]'"):
        llmeval.configure(exporters=["otlp"], otlp_protocol="grpc")


def test_encrypted_connections_trust_the_authority_they_are_given(tmp_path):
    """Both sides show a certificate; a server of another authority gets nothing."""
    authority, key, certificate = certificates(tmp_path)
    with grpc_collector(certificate=certificate, key=key, authority=authority) as far_end:
        own = exporter(
            far_end, otlp_endpoint=f"https://localhost:{far_end.port}",
            otlp_certificate=str(authority), otlp_client_key=str(key),
            otlp_client_certificate=str(certificate),
        )  # fmt: skip
        assert not own.export(Batch((span(),)))
        own.close(1.0)
        stranger = exporter(far_end, otlp_endpoint=f"https://localhost:{far_end.port}")
        with pytest.raises(ExportError) as caught:
            stranger.export(Batch((span(),)))
        assert (caught.value.reason, caught.value.retryable) == ("unreachable", True)
        stranger.close(1.0)
        assert far_end.ask()["span_count"] == 1


def certificates(folder):
    """Make an authority, and a key with a certificate of it for localhost."""
    authority, root, key, request, certificate, names = (
        folder / name for name in ("ca.pem", "ca.key", "key", "csr", "pem", "names")
    )
    names.write_text("subjectAltName=DNS:localhost\n")
    new = ["-newkey", "rsa:2048", "-nodes"]
    for command in (
        ["req", "-x509", *new, "-subj", "/CN=ca", "-keyout", root, "-out", authority, "-days", "2"],
        ["req", *new, "-subj", "/CN=localhost", "-keyout", key, "-out", request],
        ["x509", "-req", "-in", request, "-CA", authority, "-CAkey", root, "-CAcreateserial",
         "-out", certificate, "-days", "2", "-extfile", names],
    ):  # fmt: skip
        subprocess.run(["openssl", *map(str, command)], check=True, capture_output=True)
    return authority, key, certificate


RETRYABLE = ("CANCELLED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS")
REFUSALS = (
    "INVALID_ARGUMENT", "UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED", "INTERNAL",
    "RESOURCE_EXHAUSTED", "UNKNOWN", "NOT_FOUND",
)  # fmt: skip


@pytest.mark.parametrize("code", RETRYABLE)
def test_what_may_pass_is_sent_again(far_end, code):
    """The codes of the OTLP specification; what was settled before is not sent a second time."""
    sender = exporter(far_end)
    far_end.ask(refuse=[None, [code, "try later", None]])
    batch = Batch((span(),), (score(),))
    with pytest.raises(ExportError) as caught:
        sender.export(batch)
    assert (caught.value.reason, caught.value.retryable) == (f"grpc_{code.lower()}", True)
    assert caught.value.delivered == 1
    assert not sender.export(batch)
    assert far_end.ask()["calls"] == {"traces": 1, "logs": 2}
    sender.close(1.0)


@pytest.mark.parametrize("code", REFUSALS)
def test_what_does_not_pass_is_counted_by_its_code_and_told(far_end, code, caplog):
    """The other signal is sent all the same."""
    llmeval.configure(exporters=["otlp"], otlp_endpoint=far_end.url, otlp_protocol="grpc")
    far_end.ask(refuse=[[code, "not with this key", None]])
    with llmeval.workflow("asked", request="q"):
        llmeval.submit_evaluation(label="nice", value=1.0)
    stats = runtime.flush(20).exporters["otlp"]
    assert stats.dropped == {f"grpc_{code.lower()}": 1}
    assert stats.balanced
    assert stats.delivered == stats.created - 1 > 0
    assert "not with this key" in caplog.text


@pytest.mark.parametrize("code", ["RESOURCE_EXHAUSTED", "UNAVAILABLE"])
def test_a_server_may_say_when_to_come_again(far_end, code):
    """RetryInfo in the details of the status; with it, an exhausted server is asked again."""
    sender = exporter(far_end)
    far_end.ask(refuse=[[code, "slow down", 1.25]])
    batch = Batch((span(),))
    with pytest.raises(ExportError) as caught:
        sender.export(batch)
    assert caught.value.retryable
    assert caught.value.retry_after == 1.25
    assert not sender.export(batch)
    sender.close(1.0)


@pytest.mark.parametrize("details", [b"\xff\xff", b"", b"\x1a\x00", b"\x1a\x02\x0a\x00"])
def test_details_that_cannot_be_read_are_no_delay(details):
    """A stranger's trailers raise nothing."""
    assert _grpc._retry_delay((("grpc-status-details-bin", details),)) is None


def test_what_the_server_takes_only_in_part_is_counted(far_end):
    """Partial success is a refusal of so many records."""
    sender = exporter(far_end)
    far_end.ask(reject=2)
    assert sender.export(Batch(tuple(map(span, range(5))))) == {"rejected": 2}
    sender.close(1.0)


def test_a_message_that_is_too_large_is_divided():
    """Until its parts are taken; a record that is too large alone is counted."""
    with grpc_collector(max_bytes=6_000) as far_end:
        sender = exporter(far_end)
        spans = [span(number, "a roof " * 100) for number in range(20)]
        spans.append(span(99, "a roof " * 2_000))
        assert sender.export(Batch(tuple(spans))) == {"grpc_resource_exhausted": 1}
        assert far_end.ask()["span_count"] == 20
        sender.close(1.0)


def test_a_collector_that_comes_back_gets_everything():
    """What could not be sent waits for it, and the connection is tried again soon enough."""
    port = unused_port()
    llmeval.configure(
        exporters=["otlp"], otlp_endpoint=f"http://127.0.0.1:{port}", otlp_protocol="grpc"
    )
    for number in range(20):
        answer(number)
    assert runtime.flush(0.3).exporters["otlp"].delivered == 0
    with grpc_collector(port=port) as far_end:
        stats = runtime.flush(25).exporters["otlp"]
        assert stats.delivered == stats.created > 0
        assert far_end.ask()["span_count"] == 20


def test_a_server_that_does_not_answer_costs_the_timeout_and_is_unknown(far_end):
    """It may have taken the batch, so that nobody may call it lost."""
    sender = exporter(far_end, otlp_timeout=0.3)
    far_end.ask(hang=2.0)
    with pytest.raises(ExportError) as caught:
        sender.export(Batch((span(),)))
    assert (caught.value.reason, caught.value.answered) == ("timeout", False)
    sender.close(1.0)


def test_greenlets_are_refused(monkeypatch):
    """A wait inside gRPC would stop all of them."""

    class Patched:
        is_module_patched = staticmethod(lambda name: name == "threading")

    monkeypatch.setitem(sys.modules, "gevent.monkey", Patched)
    with pytest.raises(ConfigurationError, match="http/protobuf with gevent"):
        make(from_environment({}, otlp_protocol="grpc"))


def test_exports_are_not_in_the_apps_own_traces(far_end, monkeypatch):
    """Tracing libraries wrap what makes a channel; they see the app's channels and not ours."""
    import grpc

    opened = []

    def traced(make_channel, _, arguments, options):
        opened.append(arguments)
        return make_channel(*arguments, **options)

    for name in ("insecure_channel", "secure_channel"):
        wrapped = wrapt.FunctionWrapper(getattr(grpc, name), traced)
        monkeypatch.setattr(grpc, name, wrapped)
    sender = exporter(far_end)
    sender.export(Batch((span(),)))
    assert far_end.ask()["span_count"] == 1
    sender.close(1.0)
    assert opened == []
