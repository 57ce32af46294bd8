"""Exporters that misbehave in one way each; they are the far end of what is tested here."""

import threading

from llmeval_sdk.errors import ExportError


class Exporter:
    """Takes everything and remembers it."""

    name = "double"

    def __init__(self):
        self.spans, self.evaluations, self.not_run = [], [], []
        self.batches = 0
        self.flushed = 0
        self.closed = False

    def export(self, batch):
        self.batches += 1
        self.spans += batch.spans
        self.evaluations += batch.evaluations
        self.not_run += batch.not_run

    def flush(self, timeout):
        self.flushed += 1

    def close(self, timeout):
        self.closed = True

    @property
    def received(self):
        return len(self.spans) + len(self.evaluations)


class Hanging(Exporter):
    """Never comes back from export."""

    name = "hanging"

    def __init__(self):
        super().__init__()
        self.entered = threading.Event()
        self.release = threading.Event()

    def export(self, batch):
        self.entered.set()
        self.release.wait()
        super().export(batch)


class Failing(Exporter):
    """Raises what it is given, so many times, then works."""

    name = "failing"

    def __init__(self, error, times=10**9):
        super().__init__()
        self.error, self.times = error, times
        self.tries = 0

    def export(self, batch):
        self.tries += 1
        if self.tries <= self.times:
            raise self.error
        super().export(batch)


class Refusing(Exporter):
    """Takes a batch but for one record of it."""

    name = "refusing"

    def export(self, batch):
        super().export(batch)
        return {"rejected": 1}


def busy(**options):
    return ExportError("busy", retryable=True, **options)
