"""The setting of conversations."""

from __future__ import annotations

from llmeval_sdk.config.reading import Table, positive, setting


class SessionSettings(Table):
    """When a conversation is over."""

    session_idle: float = setting(
        1_800.0,
        "LLMEVAL_SESSION_IDLE",
        read=positive,
        doc="Seconds without a request after which a session is evaluated, where evaluators of "
        "sessions were asked for.",
    )
