"""Adds the missing parts to exporters and judges that do not implement their whole protocol.

Those are exporters that have only what `Exporter` asks for, and exporters and judges of 0.1, whose
optional parts were found by name. The latter keep working for two minor versions, with a
DeprecationWarning that says what to do.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Literal
from warnings import warn

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.model.protocols._evaluators import LLM, Judge
from llmeval_sdk.model.protocols._exporters import (
    BaseExporter,
    ContextBridge,
    Exporter,
    LiveSpans,
    Services,
)
from llmeval_sdk.process import PACKAGE_FOLDER


_SMALLEST = ("name", "export", "flush", "close")
_FORMER = (
    "on_start", "on_end", "on_drop", "gives_ids", "surroundings", "after_fork", "keeps_foreign",
    "in_memory", "use_redactor", "before_exit", "lost", "at_exit_signal", "at_flush",
)  # fmt: skip
"""What exporters of 0.1 could have beside the smallest four, by name."""
_LIVE = ("on_start", "on_end", "on_drop", "gives_ids")
_BRIDGE = (
    "parent", "get", "put", "ids_of", "read_ids", "mirror", "annotation_context", "inject",
    "extract",
)  # fmt: skip
_JUDGE: dict[str, Any] = {
    "needs_model": True,
    "blocking": False,
    "calls_here": True,
    "model": None,
    "span_kinds": (),
    "span_tags": {},
}
"""What judges of 0.1 could leave out, and what that meant."""


def complete_exporter(exporter: Exporter) -> BaseExporter:
    """Return an exporter that has all parts; the parts that it lacks do nothing.

    Raises:
        ConfigurationError: it is not an exporter; the message says what it lacks.
    """
    if isinstance(exporter, BaseExporter):
        return exporter
    absent = [name for name in _SMALLEST if not hasattr(exporter, name)]
    if absent or isinstance(exporter, type):
        what = exporter.__name__ if isinstance(exporter, type) else type(exporter).__name__
        why = "it is a class: pass an instance" if not absent else f"it lacks {', '.join(absent)}"
        raise ConfigurationError(f"{what} is no exporter: {why} (see llmeval_sdk.model.protocols)")
    former = [name for name in _FORMER if hasattr(exporter, name)]
    if former:
        _warn(
            f"the exporter {exporter.name!r} has {', '.join(former)} without being a BaseExporter: "
            "derive it from llmeval_sdk.model.protocols.BaseExporter, whose documentation says "
            "where each part belongs now"
        )
    return _CompletedExporter(exporter, former)


def complete_judge(judge: Judge) -> Judge:
    """Return a judge that has all parts of its protocol."""
    absent = [name for name in (*_JUDGE, "lacks", "configured") if not hasattr(judge, name)]
    if not absent:
        return judge
    _warn(
        f"the judge {judge.name!r} lacks {', '.join(absent)}: derive it from "
        "llmeval_sdk.judges.BaseJudge, which has a default for each"
    )
    return _CompletedJudge(judge)


def _warn(message: str) -> None:
    """Warn at the line outside this package that led here."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE_FOLDER):
        level, frame = level + 1, frame.f_back
    warn(f"{message}. This keeps working until 0.4.", DeprecationWarning, stacklevel=level)


class _CompletedExporter(BaseExporter):
    """Passes all calls on to an exporter; two are equal if they stand for the same object."""

    def __init__(self, exporter: Exporter, former: Iterable[str]) -> None:
        self.name = exporter.name
        self._exporter: Any = exporter
        self._former = frozenset(former)
        self.export = exporter.export  # type: ignore[method-assign]
        self.flush = exporter.flush  # type: ignore[method-assign]
        self.close = exporter.close  # type: ignore[method-assign]
        if "on_start" in self._former:
            self.live = _taken_from(exporter, _LIVE, LiveSpans())
        library = getattr(exporter, "surroundings", None)
        if library is not None:
            self.bridge = _taken_from(library, _BRIDGE, ContextBridge())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _CompletedExporter) and other._exporter is self._exporter

    def __hash__(self) -> int:
        return id(self._exporter)

    def __repr__(self) -> str:
        return repr(self._exporter)

    @property
    def keeps_foreign(self) -> bool:  # type: ignore[override]
        """Whether it takes spans of other libraries."""
        return bool(getattr(self._exporter, "keeps_foreign", False))

    @property
    def in_memory(self) -> int:  # type: ignore[override]
        """How many records it keeps in memory only."""
        return int(getattr(self._exporter, "in_memory", 0))

    def connect(self, services: Services) -> None:
        """Pass each service to the attribute or method by which exporters of 0.1 took it."""
        exporter, former = self._exporter, self._former
        if "use_redactor" in former:
            exporter.use_redactor(services.redaction)
        if "before_exit" in former:
            exporter.before_exit = services.end
        if "lost" in former:
            exporter.lost = services.losses
        if "at_exit_signal" in former:
            exporter.at_exit_signal(services.end)
        if "at_flush" in former:
            exporter.at_flush(services.deliver)

    def after_fork(self) -> None:
        """Pass it on to an exporter that has this method."""
        if "after_fork" in self._former:
            self._exporter.after_fork()


def _taken_from(source: Any, names: Iterable[str], base: Any) -> Any:
    """Return ``base``, whose methods do nothing, with the methods of ``source`` in their place."""
    for name in names:
        if hasattr(source, name):
            setattr(base, name, getattr(source, name))
    return base


class _CompletedJudge:
    """A judge of 0.1 with defaults for what it lacks; two are equal if they stand for the same."""

    kind: Literal["judge"] = "judge"

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        for name, default in _JUDGE.items():
            setattr(self, name, getattr(judge, name, default))

    def __getattr__(self, name: str) -> Any:
        if name == "_judge":  # while it is unpickled
            raise AttributeError(name)
        return getattr(self._judge, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _CompletedJudge) and other._judge is self._judge

    def __hash__(self) -> int:
        return id(self._judge)

    def __repr__(self) -> str:
        return repr(self._judge)

    async def evaluate(self, record: Record, llm: LLM, /) -> Evaluation:
        """Judge one Record."""
        return await self._judge.evaluate(record, llm)

    def lacks(self, record: Record, /) -> str | None:
        """Name what is missing beyond the needs."""
        lacks = getattr(self._judge, "lacks", None)
        absent: str | None = None if lacks is None else lacks(record)
        return absent

    def configured(self, settings: Any, /) -> Judge:
        """Return it under the settings in force."""
        configured = getattr(self._judge, "configured", None)
        return self if configured is None else complete_judge(configured(settings))
