"""Web pages over the store: traces, their scores, and what people say of them.

``llmeval view`` serves them on this machine. An app of its own mounts them behind its own auth::

    app.mount("/llmeval", llmeval.viewer.app())
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from llmeval_sdk import config
from llmeval_sdk.errors import missing_extra


if TYPE_CHECKING:
    from llmeval_sdk.viewer._application import Viewer

__all__ = ["app"]


def app(
    *,
    store: str | os.PathLike[str] | None = None,
    token: str | None = None,
    hosts: Collection[str] | None = None,
    feedback: bool = True,
    stats: Callable[[], Any] | None = None,
) -> Viewer:
    """Return the viewer as an ASGI app, to be served or mounted.

    Its ``close()``, for a server that is about to stop, closes the store and ends the streams that
    open pages hold; by themselves they end within 20 seconds.

    Args:
        store: the file; ``LLMEVAL_STORE`` or its default otherwise. It need not exist yet.
        token: what every visitor has to know. Without one the pages are open to whoever reaches
            them, so mount them behind the app's own auth.
        hosts: the ``Host`` headers that are answered, such as ``127.0.0.1:8000``; all by default.
        feedback: whether visitors may label traces.
        stats: ``llmeval.stats``, where the viewer lives in the app's own process: the page of
            scores then shows what was delivered and what was dropped, and why.

    Raises:
        MissingExtraError: Starlette or Jinja is not installed.
    """
    try:
        from llmeval_sdk.viewer._application import build
    except ImportError as error:
        raise missing_extra("The viewer", "viewer", error.name or "starlette") from None
    chosen = store or config.from_environment(problems=[]).store
    return build(chosen, token=token, hosts=hosts, feedback=feedback, stats=stats)
