"""Tells an alarm to an HTTP address: a JSON object of ours, or the text that Slack takes."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from llmeval_sdk.config.watching import WatchSettings
from llmeval_sdk.errors import ConfigurationError, ExportError


ATTEMPTS = 4
SECONDS = 10.0
"""How long one attempt may take, as a whole."""
FORMATS = ("generic", "slack")


class Webhook:
    """Sends messages to the address of ``LLMEVAL_ALERT_WEBHOOK``.

    Raises `ConfigurationError` where the address or the format cannot be used; the address itself
    never stands in a message, because it may hold a secret.
    """

    def __init__(self, watching: WatchSettings, *, pause: float = 0.5) -> None:
        assert watching.alert_webhook is not None
        address = watching.alert_webhook.reveal().strip()
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError("LLMEVAL_ALERT_WEBHOOK is not the address of an HTTP server")
        self._base = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._token = watching.alert_token.reveal() if watching.alert_token else None
        default = "slack" if parts.hostname == "hooks.slack.com" else "generic"
        self._format = watching.alert_format or default
        if self._format not in FORMATS:
            raise ConfigurationError(
                f"LLMEVAL_ALERT_FORMAT={self._format!r}: use {' or '.join(FORMATS)}"
            )
        self._pause = pause

    def tell(self, message: dict[str, Any]) -> None:
        """Send one message, again where that may help.

        Raises `ExportError` where it was not taken.
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
        from llmeval_sdk.exporters._http import Sender

        headers = {"content-type": "application/json", "idempotency-key": key}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        sender = Sender(self._base, timeout=SECONDS)
        try:
            answer = sender.post(self._path, data, headers)
        finally:
            sender.close()
        if not 200 <= answer.status < 300:
            raise answer.failure()
