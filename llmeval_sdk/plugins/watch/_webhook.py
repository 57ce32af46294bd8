"""Sends alarms to an HTTP address, as a JSON object of our own or as text in Slack's form."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from llmeval_sdk.errors import ConfigurationError, ExportError
from llmeval_sdk.plugins.watch.settings import WatchSettings


ATTEMPTS = 4
SECONDS = 10.0
"""How long one attempt may take, as a whole."""
FORMATS = ("generic", "slack")


class Webhook:
    """Sends messages to the address of ``LLMEVAL_ALERT_WEBHOOK``.

    Raises `ConfigurationError` if the address, the token or the format cannot be used. The error
    shows neither address nor token, because both may be secret.
    """

    def __init__(self, watching: WatchSettings, *, pause: float = 0.5) -> None:
        assert watching.alert_webhook is not None
        address = watching.alert_webhook.reveal().strip()
        try:
            parts = urlsplit(address)
            host, _ = parts.hostname or "", parts.port
            host.encode("idna")
        except ValueError:  # a port that is no number, half a bracket, an impossible host name
            parts, host = urlsplit(""), ""
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if parts.scheme not in ("http", "https") or not host or not _is_plain(path):
            raise ConfigurationError(
                "LLMEVAL_ALERT_WEBHOOK is not the address of an HTTP server, such as"
                " https://example.com/hook"
            )
        self._base = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self._path = path
        self._token = watching.alert_token.reveal().strip() if watching.alert_token else None
        if self._token and not _is_plain(self._token):
            raise ConfigurationError(
                "LLMEVAL_ALERT_TOKEN cannot be sent in a header: it holds a space, a line break or"
                " a character outside ASCII"
            )
        default = "slack" if host == "hooks.slack.com" else "generic"
        self._format = watching.alert_format or default
        if self._format not in FORMATS:
            raise ConfigurationError(
                f"LLMEVAL_ALERT_FORMAT={self._format!r}: use {' or '.join(FORMATS)}"
            )
        self._pause = pause

    def tell(self, message: dict[str, Any]) -> None:
        """Send one message, with up to four attempts if trying again may help.

        Raises `ExportError` if it was not taken.
        """
        from tenacity import Retrying, retry_if_exception, stop_after_attempt
        from tenacity import wait_random_exponential as wait

        def is_passing(error: BaseException) -> bool:
            return isinstance(error, ExportError) and error.retryable

        body = {"text": message["text"]} if self._format == "slack" else message
        data = json.dumps(body).encode()
        for attempt in Retrying(
            wait=wait(multiplier=self._pause, max=8.0),
            stop=stop_after_attempt(ATTEMPTS),
            retry=retry_if_exception(is_passing),
            reraise=True,
        ):
            with attempt:
                self._send(data, str(message.get("id", "")))

    def _send(self, data: bytes, key: str) -> None:
        from llmeval_sdk.exporters.http import HttpSender

        key = key.encode(
            "ascii", "backslashreplace"
        ).decode()  # evaluators have names in any script
        headers = {"content-type": "application/json", "idempotency-key": key}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        sender = HttpSender(self._base, timeout=SECONDS)
        try:
            answer = sender.post(self._path, data, headers)
        finally:
            sender.close()
        if not 200 <= answer.status < 300:
            raise answer.failure()


def _is_plain(text: str) -> bool:
    """Say whether a text may stand in the head of an HTTP request."""
    return text.isascii() and text.isprintable() and " " not in text
