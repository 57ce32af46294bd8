"""MLflow: spans over OTLP, scores and ground truth as assessments of the trace."""

from __future__ import annotations

from llmeval_sdk.pipeline.plan import Plugin


class MlflowPlugin(Plugin):
    """The exporter ``mlflow``."""

    name = "mlflow"
    settings = {"MLflow": "settings:MlflowSettings"}
    exporters = {"mlflow": "exporter:MlflowExporter"}


plugin = MlflowPlugin()
