"""The settings of what may leave the process."""

from __future__ import annotations

from dataclasses import dataclass

from llmeval_sdk.config._row import setting
from llmeval_sdk.config._texts import content, names, one_of


@dataclass(frozen=True, kw_only=True)
class PrivacySettings:
    """What may leave the process."""

    capture_content: bool | str = setting(
        True,
        "LLMEVAL_CAPTURE_CONTENT",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
        read=content,
        doc="`false` keeps texts out of every export; heuristics still score them. `scores` also "
        "keeps names, tags, metadata and document ids at home.",
    )
    images: str = setting(
        "mark",
        "LLMEVAL_IMAGES",
        read=one_of("mark", "keep"),
        doc="What becomes of images, sounds and files in bytes or base64, online and offline: "
        "`mark` keeps their type, size and hash, `keep` the first 131,072 characters of each, "
        "bytes as a data URL.",
    )
    redact: tuple[str, ...] = setting(
        ("api_key", "jwt"),
        "LLMEVAL_REDACT",
        read=names,
        doc="What is taken out of everything that leaves: `api_key`, `jwt`, `email`, `card`, "
        "`iban`, `phone`, `all` or `off`.",
    )
