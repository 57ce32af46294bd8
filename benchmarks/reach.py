"""What reaching further costs: OTLP over gRPC beside OTLP over HTTP, and a serverless invocation.

Of the two protocols it prints CPU per span: both exporters send the same spans to a server of the
same kind, which runs in a process of its own; CPU is that of all threads of this process. Exits 1
if a bar is missed.

    python -m benchmarks.reach [--quick]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

from benchmarks import serverless
from benchmarks.measures import Table
from benchmarks.otel_cpu import collector, messages
from llmeval_sdk.config import from_environment
from llmeval_sdk.exporters.otlp import make
from llmeval_sdk.model import Batch, SpanData


SIZES = (500, 25)
"""How many spans go in a request: a full batch, and what gathers in 0.2 s at little traffic.

The bar is on full batches, where a busy app spends its CPU. A single request costs more over gRPC
than over HTTP, which shows where few spans share one.
"""
RATIO_BAR = 1.2


# -- gRPC and HTTP ----------------------------------------------------------------------------------


def serve():
    """Run a gRPC server that decodes what it gets, and print its port."""
    from concurrent.futures import ThreadPoolExecutor

    import grpc
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

    class Traces(trace_service_pb2_grpc.TraceServiceServicer):
        def Export(self, request, context):  # noqa: N802 - the service's own name
            return trace_service_pb2.ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Traces(), server)
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    sys.stdin.read()


def spans(count):
    """Make spans with what a small call has."""
    question, answer = "Which material covers the roof?", "Slate, says the survey of 1998."
    texts = {"input": messages("user", question), "output": messages("assistant", answer)}
    return tuple(
        SpanData(
            f"{number:032x}", f"{number:016x}", None, "answer", "workflow", 1, 2, question, answer,
            attributes=texts, tags={"team": "survey"}, session_id="s-1",
        )
        for number in range(1, count + 1)
    )  # fmt: skip


def cpu_per_span(exporter, batches):
    """Export some batches of spans, and return microseconds of CPU for each span."""
    begun = time.process_time()
    for batch in batches:
        assert not exporter.export(batch)
    return (time.process_time() - begun) / sum(map(len, batches)) * 1e6


def protocols(table, size, rounds, count):
    """Compare both protocols in turn, round by round; ``count`` requests of ``size`` spans each."""
    with collector() as over_http, collector("benchmarks.reach") as over_grpc:
        exporters = {
            name: make(from_environment({}, otlp_endpoint=url, otlp_protocol=name))
            for name, url in (("http/protobuf", over_http), ("grpc", over_grpc))
        }
        pairs = []
        for number in range(rounds + 1):
            figures = []
            for exporter in exporters.values():
                batches = [Batch(spans(size)) for _ in range(count)]
                figures.append(cpu_per_span(exporter, batches))
            if number:  # the first round loads and connects
                pairs.append(figures)
        for exporter in exporters.values():
            exporter.close(1.0)
    http, grpc = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(over_grpc / over_http for over_http, over_grpc in pairs)
    dearer = max(ratio, 1 / ratio)
    about = f"CPU per span of the exporter, {size} a request"
    table.row(f"{about}, HTTP", f"{http:.1f} µs")
    table.row(f"{about}, gRPC", f"{grpc:.1f} µs")
    has_bar = size == SIZES[0]
    bar = f"within {RATIO_BAR:.1f}" if has_bar else ""
    table.row("  gRPC in HTTP", f"{ratio:.2f}", bar, ok=not has_bar or dearer <= RATIO_BAR)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--serve", action="store_true")
    options = parser.parse_args()
    if options.serve:
        serve()
        return 0
    table = Table()
    for size in SIZES:
        protocols(table, size, *((5, 5_000 // size) if options.quick else (15, 10_000 // size)))
    serverless.wrapper(table, 100 if options.quick else 500)
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
