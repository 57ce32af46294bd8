"""The settings of the verdicts that offline runs keep."""

from __future__ import annotations

from dataclasses import dataclass

from llmeval_sdk.config._row import setting
from llmeval_sdk.config._secret import Secret
from llmeval_sdk.config._texts import long_secret


@dataclass(frozen=True, kw_only=True)
class VerdictSettings:
    """How verdicts that offline runs keep are signed."""

    verdict_key: Secret | None = setting(  # noqa: RUF009
        None,
        "LLMEVAL_VERDICT_KEY",
        read=long_secret,
        doc="Secret that signs the kept verdicts of offline runs, for CI: a verdict without its "
        "signature is judged anew. Default: made per machine.",
    )
    state: str = setting(
        "~/.local/state/llmeval",
        "LLMEVAL_STATE",
        doc="Folder of what belongs to this user and machine, outside any checkout: the key of "
        "kept verdicts.",
    )
