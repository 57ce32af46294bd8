"""MLflow: spans over OTLP, scores and ground truth as assessments of the trace."""

from __future__ import annotations

from llmeval_sdk.config.reading import Secret, Table, secret, setting
from llmeval_sdk.pipeline.plan import Plugin


class MlflowSettings(Table):
    """Where MLflow is."""

    mlflow_uri: str = setting(
        "http://127.0.0.1:5000",
        "MLFLOW_TRACKING_URI",
        doc="Where the MLflow server is.",
    )
    mlflow_experiment: str | None = setting(
        None,
        "MLFLOW_EXPERIMENT_NAME",
        doc="MLflow experiment, made if absent. Default: the service's name.",
        in_experiment="{name}",
    )
    mlflow_experiment_id: str | None = setting(
        None, "MLFLOW_EXPERIMENT_ID", doc="MLflow experiment by id.", in_experiment=""
    )
    mlflow_token: Secret | None = setting(
        None, "MLFLOW_TRACKING_TOKEN", read=secret, doc="Token for MLflow."
    )
    mlflow_username: str | None = setting(None, "MLFLOW_TRACKING_USERNAME", doc="MLflow user.")
    mlflow_password: Secret | None = setting(
        None, "MLFLOW_TRACKING_PASSWORD", read=secret, doc="MLflow user's password."
    )


class MlflowPlugin(Plugin):
    """The exporter ``mlflow``."""

    name = "mlflow"
    settings = {"MLflow": ":MlflowSettings"}
    exporters = {"mlflow": "exporter:MlflowExporter"}


plugin = MlflowPlugin()
