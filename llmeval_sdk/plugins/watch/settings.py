"""The settings of ``llmeval watch``."""

from __future__ import annotations

from llmeval_sdk.config.reading import Secret, Table, secret, server, setting


class WatchSettings(Table):
    """Where ``llmeval watch`` tells alarms to."""

    alert_webhook: Secret | None = setting(
        None,
        "LLMEVAL_ALERT_WEBHOOK",
        read=secret,
        doc="Address that `llmeval watch` tells alarms to, by an HTTP POST of JSON.",
    )
    alert_token: Secret | None = setting(
        None,
        "LLMEVAL_ALERT_TOKEN",
        read=secret,
        doc="Sent with each alarm as `Authorization: Bearer …`.",
    )
    viewer_url: str = setting(
        "http://127.0.0.1:8520",
        "LLMEVAL_VIEWER_URL",
        read=server,
        doc="Where people reach `llmeval view`: alarms link to it.",
    )
