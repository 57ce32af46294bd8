"""Names of evaluators -> labels that Datadog takes: a letter, then letters, digits, underscores."""

from __future__ import annotations

import re
from zlib import crc32

from llmeval_sdk._process.shield import tell


MAX_LABEL = 200
_GOOD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,199}")
_OTHER = re.compile(r"[^A-Za-z0-9_]")


def label_of(name: str) -> str:
    """Return the label for a name: the same one in every process.

    ``ragas:context_precision`` becomes ``ragas__context_precision``: beside it there is
    ``ragas_context_precision``, which is another metric.
    """
    if _GOOD.fullmatch(name):
        return name
    label = _OTHER.sub("_", name.replace(":", "__"))
    if not label.strip("_"):  # nothing of the name is left: two such names must stay apart
        label = f"evaluation_{crc32(name.encode('utf-8', 'replace')):08x}"
    elif not label[0].isalpha():
        label = f"e{label}" if label[0] == "_" else f"e_{label}"
    if len(label) > MAX_LABEL:
        end = f"_{crc32(name.encode('utf-8', 'replace')):08x}"
        label = label[: MAX_LABEL - len(end)] + end
    return label


class Labels:
    """Labels of one process; tells once where two names share one."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._labels: dict[str, str] = {}

    def of(self, name: str) -> str:
        """Return the label for a name."""
        label = self._labels.get(name)
        if label is None:
            label = self._labels[name] = label_of(name)
            other = self._names.setdefault(label, name)
            if other != name:
                tell(
                    f"exporter datadog: label {label[:60]}",
                    f"{other[:60]!r} and {name[:60]!r} are one evaluation in Datadog: rename one",
                )
        return label
