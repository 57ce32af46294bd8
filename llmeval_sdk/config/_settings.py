"""The tables of all areas, and the frozen `Settings` that joins them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import Any, TypeVar

from llmeval_sdk.config.datadog import DatadogSettings
from llmeval_sdk.config.judging import JudgingSettings
from llmeval_sdk.config.otlp import OtlpSettings
from llmeval_sdk.config.privacy import PrivacySettings
from llmeval_sdk.config.process import ProcessSettings
from llmeval_sdk.config.recording import RecordingSettings


_Table = TypeVar("_Table")

_CORE: dict[str, type] = {
    "Recording and scoring": RecordingSettings,
    "Judges": JudgingSettings,
    "Privacy": PrivacySettings,
    "Store, spool and background work": ProcessSettings,
    "Datadog": DatadogSettings,
    "OpenTelemetry": OtlpSettings,
}
_EXTENSIONS = {
    "Automatic instrumentation": "instrumentation:InstrumentationSettings",
    "Decision models": "decisions:DecisionSettings",
    "Ids of users and sessions": "identities:IdentitySettings",
    "Judge fleet": "fleet:FleetSettings",
    "Conversations": "sessions:SessionSettings",
    "OTLP over gRPC": "grpc:GrpcSettings",
    "Langfuse": "langfuse:LangfuseSettings",
    "Phoenix": "phoenix:PhoenixSettings",
    "MLflow": "mlflow:MlflowSettings",
    "Ragas": "ragas:RagasSettings",
    "Judge models of Anthropic and Google": "providers:ProviderSettings",
    "Risk scores that learn": "learning:LearnedSettings",
    "One budget for all hosts": "shared:SharedSettings",
    "Alarms of `llmeval watch`": "watching:WatchSettings",
    "Serverless functions": "serverless:ServerlessSettings",
    "Verdicts that offline runs keep": "verdicts:VerdictSettings",
}
"""Tables of what can be deleted from the package, each with its file here."""

FORMER_NAMES = {"judge_budget": "judge_share"}
"""Names that `configure` takes until version 0.3."""


def _extensions() -> dict[str, type]:
    """Return the tables of the extensions that are there."""
    tables = {}
    for title, place in _EXTENSIONS.items():
        module, _, name = place.partition(":")
        path = f"{__package__}.{module}"
        try:
            tables[title] = getattr(import_module(path), name)
        except ModuleNotFoundError as error:
            if error.name != path:
                raise
    return tables


@dataclass(frozen=True, kw_only=True)
class Settings(
    RecordingSettings,
    JudgingSettings,
    PrivacySettings,
    ProcessSettings,
    DatadogSettings,
    OtlpSettings,
):
    """The whole configuration, resolved and valid.

    The tables of the core are independent of each other; their fields stand here side by side.
    """

    extensions: Mapping[type, Any] = field(default_factory=dict)
    """The tables of extensions by class. A table that is missing has all its defaults."""

    def of(self, table: type[_Table]) -> _Table:
        """Return the settings of an extension."""
        settings: _Table = self.extensions.get(table) or table()
        return settings


AREAS: dict[str, type] = {**_CORE, **_extensions()}
"""The tables by the title of their area."""

ROWS: tuple[Any, ...] = tuple(row for table in AREAS.values() for row in fields(table))
"""The rows of all tables. A row is a dataclass field that `setting` made."""
