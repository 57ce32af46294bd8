"""Settings of earlier versions: what to write in their place, and what they limited."""

from __future__ import annotations

from typing import NamedTuple

from llmeval_sdk.config.reading import JUDGES


class Removed(NamedTuple):
    """A setting that is no more."""

    instead: str
    closes: str | None = None
    """What it limited, which is off as long as a variable still asks for that limit."""


_MODEL = "pass decisions=HttpDecisions(…, {})"

REMOVED = {
    "learn": Removed(
        "scores no longer learn; `llmeval judges --calibrate` fits a judge to your labels"
    ),
    "judge_control_rate": Removed("pass Escalation(judge, share=…, control_rate=…)"),
    "cascade": Removed("pass escalations=[Cascade(judge)]"),
    "decision_path": Removed(_MODEL.format("path=…")),
    "decision_thresholds": Removed(_MODEL.format("thresholds=…")),
    "decision_usd_per_day": Removed(_MODEL.format("budget=Budget(usd_per_day=…)"), JUDGES),
    "decision_tokens_per_minute": Removed(
        _MODEL.format("budget=Budget(tokens_per_minute=…)"), JUDGES
    ),
    "verdict_key": Removed("keep the folder ~/.local/state/llmeval between runs"),
    "state": Removed("set XDG_STATE_HOME"),
    "spool_bytes": Removed("a process has 16 MB"),
    "spool_max_bytes": Removed("all processes have 1 GB"),
    "queue_records": Removed("20,000 records may wait"),
    "queue_bytes": Removed("32 MB may wait"),
    "shared_concurrency": Removed("set LLMEVAL_JUDGE_CONCURRENCY, which each process keeps"),
    "fleet_expiry": Removed("a judgement waits for six hours"),
    "ragas_memory_bytes": Removed("its process may take 1 GB"),
    "ragas_idle_seconds": Removed("its process ends after five minutes without work"),
    "datadog_timeout": Removed("a request may take five seconds"),
    "alert_format": Removed("hooks.slack.com gets Slack's form, any other address ours"),
    "phoenix_endpoint": Removed("set PHOENIX_COLLECTOR_ENDPOINT", "phoenix"),
    "mlflow_uri": Removed("set MLFLOW_TRACKING_URI", "mlflow"),
}
"""By the name that ``configure()`` took; their variables are those names after ``LLMEVAL_``."""
