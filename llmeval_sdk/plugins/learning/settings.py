"""The setting of the risk scores that learn."""

from __future__ import annotations

from llmeval_sdk.config.reading import Table, flag, setting


class LearnedSettings(Table):
    """Whether risk scores learn from verdicts."""

    learn: bool = setting(
        True,
        "LLMEVAL_LEARN",
        read=flag,
        doc="Re-fit `groundedness_risk` on this app's own verdicts and labels, from 100 on. Off "
        "keeps the shipped weights.",
    )
