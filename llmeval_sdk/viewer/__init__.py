"""Web pages over the store: traces, their scores, and what people say of them.

``llmeval view`` serves them on this machine. An app mounts them with a token that visitors must
know, or openly where its own log-in stands before them::

    app.mount("/llmeval", llmeval.viewer.app(token=secret, hosts=["app.example.com"]))
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from llmeval_sdk.errors import ConfigurationError, missing_extra


if TYPE_CHECKING:
    from llmeval_sdk.viewer._application import Viewer

__all__ = ["app"]


def app(
    *,
    store: str | os.PathLike[str] | None = None,
    token: str | None = None,
    open: bool = False,  # noqa: A002
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
        token: what a visitor's first address has to hold, as ``?token=…``; the browser is then let
            in for twelve hours. Make it long: ``secrets.token_urlsafe(24)``.
        open: pass ``True`` instead of a token where the app's own log-in stands before the pages.
            They show every prompt and answer to whoever reaches them.
        hosts: the names in the ``Host`` header that are answered, such as ``app.example.com`` (any
            port) or ``127.0.0.1:8000``; ``["*"]`` answers to all. By default ``localhost`` and bare
            addresses, so that no foreign page can reach the viewer by a name of its own.
        feedback: whether visitors may label traces.

    Raises:
        ConfigurationError: there is neither a token nor ``open=True``, or there are both.
        MissingExtraError: Starlette or Jinja is not installed.
    """
    if bool(token) == open:
        raise ConfigurationError(
            "viewer.app() shows every prompt and answer in the store: pass token=… for visitors to "
            "open the pages with ?token=…, or open=True where the app's own log-in stands before "
            "them" + (" (not both)" if open else "")
        )
    try:
        from llmeval_sdk.viewer._application import build
    except ImportError as error:
        raise missing_extra("The viewer", "viewer", error.name or "starlette") from None
    return build(store, token=token or None, hosts=hosts, feedback=feedback)
