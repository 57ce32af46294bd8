"""The setting of the risk scores that learn."""

from __future__ import annotations

from dataclasses import dataclass

from llmeval_sdk.config.reading import flag, setting


@dataclass(frozen=True, kw_only=True)
class LearnedSettings:
    """Whether risk scores learn from verdicts."""

    learn: bool = setting(
        True,
        "LLMEVAL_LEARN",
        read=flag,
        doc="Re-fit `groundedness_risk` on this app's own verdicts and labels, from 100 on. Off "
        "keeps the shipped weights.",
    )
