"""OTLP over gRPC."""

from __future__ import annotations

from llmeval_sdk.pipeline.plan import Plugin


class GrpcPlugin(Plugin):
    """The protocol ``grpc`` of the exporter ``otlp``."""

    name = "grpc"
    settings = {"OTLP over gRPC": "settings:GrpcSettings"}
    transports = {"grpc": "exporter:make"}


plugin = GrpcPlugin()
