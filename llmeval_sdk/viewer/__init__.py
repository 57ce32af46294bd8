"""Web pages over the store: traces, their scores, and what people say of them.

``llmeval view`` serves them on this machine. An app of its own mounts them behind its own auth::

    app.mount("/llmeval", llmeval.viewer.app())
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

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
) -> Viewer:
    """Return the viewer as an ASGI app, to be served or mounted.

    Its ``close()``, for a server that is about to stop, closes the store and ends the streams that
    open pages hold; by themselves they end within 20 seconds.

    Args:
        store: the file, which need not exist yet; otherwise the one that this process writes, by
            ``configure()`` or ``LLMEVAL_STORE``. Of that one, the page of scores also shows what
            the process delivered and what it dropped, and why.
        token: what every visitor has to know. Without one the pages are open to whoever reaches
            them, so mount them behind the app's own auth.
        hosts: the ``Host`` headers that are answered, such as ``127.0.0.1:8000``; all by default.
        feedback: whether visitors may label traces.

    Raises:
        MissingExtraError: Starlette or Jinja is not installed.
    """
    try:
        from llmeval_sdk.viewer._application import build
    except ImportError as error:
        raise missing_extra("The viewer", "viewer", error.name or "starlette") from None
    return build(store, token=token, hosts=hosts, feedback=feedback)
