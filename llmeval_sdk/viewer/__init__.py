"""Web pages that show the store: traces, their scores, and what people said about them.

``llmeval view`` serves the pages on this machine. An app can mount them, either with a token that
visitors must know, or openly if the app's own log-in protects them::

    app.mount("/llmeval", llmeval.viewer.app(token=secret, hosts=["app.example.com"]))
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from llmeval_sdk.errors import ConfigurationError, missing_extra


if TYPE_CHECKING:
    from llmeval_sdk.tracing import Span
    from llmeval_sdk.viewer._application import Viewer
    from llmeval_sdk.viewer._web_feedback import FeedbackApp

__all__ = ["app", "feedback_app", "feedback_token"]
MIN_KEY = 16


def app(
    *,
    store: str | os.PathLike[str] | None = None,
    token: str | None = None,
    open: bool = False,  # noqa: A002
    hosts: Collection[str] | None = None,
    feedback: bool = True,
    metrics: bool = False,
    reports: str | os.PathLike[str] | None = None,
) -> Viewer:
    """Return the viewer as an ASGI app, to be served or mounted.

    A server that is about to stop can call the app's ``close()``, which closes the store and ends
    the streams that open pages hold. Without that call the streams end within 20 seconds.

    Args:
        store: The file to show, which need not exist yet. By default it is the file that this
            process writes (set by ``configure()`` or ``LLMEVAL_STORE``), and the page of scores
            then also shows what the process delivered, what it dropped, and why.
        token: A secret that a visitor's first address must hold, as ``?token=…``. The browser is
            then let in for twelve hours. Make it long: ``secrets.token_urlsafe(24)``.
        open: Pass ``True`` instead of a token if the app's own log-in protects the pages. They
            show every prompt and answer to whoever reaches them.
        hosts: The ``Host`` headers that the viewer answers to, such as ``app.example.com`` (any
            port) or ``127.0.0.1:8000``; ``["*"]`` allows all. By default only ``localhost`` and
            bare addresses are allowed, so that no foreign page can reach the viewer by binding a
            name of its own to this machine.
        feedback: Whether visitors may label traces.
        metrics: Whether ``/metrics`` shows counters for Prometheus. A token is passed there like on
            any other page, as ``?token=…``.
        reports: The folder of the saved reports of offline runs that the page of experiments
            lists, by default ``reports`` beside the store, where ``llmeval evaluate`` saves them.

    Raises:
        ConfigurationError: Neither a token nor ``open=True`` was passed, or both were.
        MissingExtraError: Starlette or Jinja is not installed; the extra ``viewer`` brings both.
    """
    if bool(token) == open:
        raise ConfigurationError(
            "viewer.app() shows every prompt and answer in the store, so say who may see them: "
            "pass token=… (visitors then open the pages with ?token=…), or open=True if the app's "
            "own log-in protects them" + (" (not both)" if open else "")
        )
    try:
        from llmeval_sdk.viewer._application import build
    except ImportError as error:
        raise missing_extra("The viewer", "viewer", error.name or "starlette") from None
    return build(
        store, token=token or None, hosts=hosts, feedback=feedback, metrics=metrics, reports=reports
    )


def feedback_app(
    *,
    key: str,
    store: str | os.PathLike[str] | None = None,
    per_minute: int = 30,
    origins: Collection[str] = (),
) -> FeedbackApp:
    """Return an ASGI app that takes feedback from web clients: ``app.add_route("/feedback", …)``.

    A client posts ``{"token": "…", "name": "thumbs", "value": true, "reason": "…"}``. The token is
    what `feedback_token` returned for the span; ``name`` is ``thumbs`` by default, and ``reason``
    is optional. The answer is 204; 400 for what is no feedback or holds control characters, 403 for
    a token that is none, 404 for a span that is not in the store (yet, or any more), 429 for too
    much, each counted in ``stats().problems``.

    Args:
        key: The secret with which tokens are signed, at least 16 characters; the same on all hosts.
        store: The file, by default that which this process writes.
        per_minute: How much may be said of one span; ten times as much may come from one address.
        origins: The sites of other origins whose pages may post, such as
            ``https://app.example.com``.

    Raises:
        ConfigurationError: The key is too short.
        MissingExtraError: Starlette is not installed; the extra ``viewer`` brings it.
    """
    _check_key(key)
    try:
        from llmeval_sdk.viewer._web_feedback import FeedbackApp
    except ImportError as error:
        raise missing_extra("The viewer", "viewer", error.name or "starlette") from None
    return FeedbackApp(store, key=key, per_minute=per_minute, origins=origins)


def feedback_token(span: Span, *, key: str) -> str:
    """Return the token with which a web client may say something of a span.

    Raises `ConfigurationError` if the key is shorter than 16 characters.
    """
    _check_key(key)
    try:
        from llmeval_sdk.viewer._web_feedback import token_of
    except ImportError as error:
        raise missing_extra("The viewer", "viewer", error.name or "starlette") from None
    return token_of(span.trace_id, span.span_id, key)


def _check_key(key: str) -> None:
    if len(key) < MIN_KEY:
        raise ConfigurationError(
            f"the key that signs feedback needs at least {MIN_KEY} characters:"
            " use secrets.token_urlsafe(24), and the same one on all hosts"
        )
