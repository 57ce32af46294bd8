"""A gRPC server of OpenTelemetry's own service definitions, in a process of its own.

It does what it is told over its standard input, one line of JSON at a time, and answers each.
"""

import json
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep


class GrpcCollector:
    """The far end, as tests see it."""

    def __init__(self, process):
        self._process = process
        self.port = json.loads(process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"
        self.process_id = process.pid

    def ask(self, **orders):
        """Give orders (see ``_Orders``), and return what arrived so far."""
        print(json.dumps(orders), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def forget(self):
        """Forget what arrived and all orders; calls that still hang are not seen any more."""
        self.ask(refuse=[], always=None, reject=0, hang=0.0, forget=True)

    def wait(self, done, seconds=60.0):
        """Wait until what arrived satisfies ``done``, and return it."""
        end = monotonic() + seconds
        while not done(seen := self.ask()):
            assert monotonic() < end, seen
            sleep(0.02)
        return seen


@contextmanager
def grpc_collector(**options):
    """Run one for the block.

    ``port`` is any by default; with ``certificate`` and ``key`` it is encrypted, with ``authority``
    it asks clients for a certificate too; ``max_bytes`` is the largest message that it takes.
    """
    command = [sys.executable, __file__, json.dumps(options, default=str)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield GrpcCollector(process)
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(10)


@contextmanager
def counting_relay(port):
    """Pass bytes on to a port for the block; gives its own port and the number of bytes so far."""
    sent, ends, threads = [0], [], []

    def pump(source, sink, counts):
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sent[0] += len(data) if counts else 0
                sink.sendall(data)

    def accept():
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", port))
                ends.extend((near, far))
                for source, sink, counts in ((near, far, True), (far, near, False)):
                    start(pump, source, sink, counts)

    def start(work, *arguments):
        threads.append(threading.Thread(target=work, args=arguments))
        threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        start(accept)
        try:
            yield listener.getsockname()[1], lambda: sent[0]
        finally:  # only a shutdown wakes a thread that waits for a connection or for bytes
            for end in (listener, *ends):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join(10)
            for end in ends:
                end.close()


# -- the process ------------------------------------------------------------------------------------


class _Orders:
    """How to answer.

    ``refuse`` is a list of ``[code, details, retry delay or null]`` for the next calls (``null``:
    take it), ``always`` one of them for all, ``reject`` how many records each call does not take,
    ``hang`` the seconds before an answer, and ``forget`` whether what arrived is forgotten.
    """

    refuse = ()
    always = None
    reject = 0
    hang = 0.0
    forget = False


class _Seen:
    def __init__(self):
        self.lock = threading.Lock()
        self.calls = {"traces": 0, "logs": 0}
        self.spans, self.logs, self.resources = [], [], []
        self.attributes = {}
        self.metadata = {}
        self.span_count = self.log_count = 0


def _serve(port=0, certificate=None, key=None, authority=None, max_bytes=4 << 20):
    from concurrent.futures import ThreadPoolExecutor

    import grpc
    from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

    newest = [_Seen()]

    def answered(signal, context):
        """Count a call and return where to note it; abort it where that was ordered."""
        seen = newest[0]
        with seen.lock:
            seen.calls[signal] += 1
            seen.metadata[signal] = {
                name: value
                for name, value in context.invocation_metadata()
                if isinstance(value, str)
            }
            refusal = _Orders.refuse.pop(0) if _Orders.refuse else _Orders.always
        if _Orders.hang:
            sleep(_Orders.hang)
        if refusal is not None:
            code, details, delay = refusal
            if delay is not None:
                context.set_trailing_metadata(
                    (("grpc-status-details-bin", _status(code, details, delay)),)
                )
            context.abort(getattr(grpc.StatusCode, code), details)
        return seen

    class Traces(trace_service_pb2_grpc.TraceServiceServicer):
        def Export(self, request, context):
            seen = answered("traces", context)
            with seen.lock:
                for resource in request.resource_spans:
                    seen.resources.append(_plain(resource.resource))
                    for scope in resource.scope_spans:
                        seen.span_count += len(scope.spans)
                        for span in scope.spans[:50]:
                            seen.spans.append(span.name)
                            seen.attributes[span.name] = _plain(span)
            answer = trace_service_pb2.ExportTraceServiceResponse()
            if _Orders.reject:
                answer.partial_success.rejected_spans = _Orders.reject
                answer.partial_success.error_message = "too old"
            return answer

    class Logs(logs_service_pb2_grpc.LogsServiceServicer):
        def Export(self, request, context):
            seen = answered("logs", context)
            with seen.lock:
                for resource in request.resource_logs:
                    for scope in resource.scope_logs:
                        seen.log_count += len(scope.log_records)
                        seen.logs += [_plain(record) for record in scope.log_records[:50]]
            return logs_service_pb2.ExportLogsServiceResponse()

    limit = ("grpc.max_receive_message_length", max_bytes)
    server = grpc.server(ThreadPoolExecutor(4), options=[limit])
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Traces(), server)
    logs_service_pb2_grpc.add_LogsServiceServicer_to_server(Logs(), server)
    address = f"127.0.0.1:{port}"
    if certificate:
        pair = (Path(key).read_bytes(), Path(certificate).read_bytes())
        clients = Path(authority).read_bytes() if authority else None
        credentials = grpc.ssl_server_credentials(
            [pair], clients, require_client_auth=bool(clients)
        )
        bound = server.add_secure_port(f"localhost:{port}", credentials)
    else:
        bound = server.add_insecure_port(address)
    server.start()
    print(json.dumps(bound), flush=True)
    for line in sys.stdin:
        for name, value in json.loads(line).items():
            setattr(_Orders, name, value)
        if _Orders.forget:
            newest[0], _Orders.forget = _Seen(), False
        seen = newest[0]
        with seen.lock:
            kept = {name: value for name, value in vars(seen).items() if name != "lock"}
            print(json.dumps(kept), flush=True)
    server.stop(None)


def _plain(record):
    from otlp_collector import attributes_of

    return attributes_of(record)


def _status(code, details, delay):
    """Return a google.rpc.Status with a RetryInfo, as servers put it into the trailers."""
    import grpc
    from google.protobuf.any_pb2 import Any
    from google.protobuf.duration_pb2 import Duration
    from google.rpc.error_details_pb2 import RetryInfo
    from google.rpc.status_pb2 import Status

    seconds = int(delay)
    info = RetryInfo(retry_delay=Duration(seconds=seconds, nanos=int((delay - seconds) * 1e9)))
    packed = Any()
    packed.Pack(info)
    number = getattr(grpc.StatusCode, code).value[0]
    return Status(code=number, message=details, details=[packed]).SerializeToString()


if __name__ == "__main__":
    _serve(**json.loads(sys.argv[1]))
