"""The names of everything that a fleet keeps in Redis."""

from llmeval_sdk.policy.shared.client import KEYS


QUEUE = "judgements"
"""The name of Celery's queue; its key has the prefix, as all keys of Celery's transport have."""
QUEUE_KEY = f"{KEYS}{QUEUE}"
JUDGEMENT = f"{KEYS}judgement."
"""Begins the key of each judgement's state."""
MESSAGE = f"{KEYS}message."
"""The prefix of the keys that hold copies of messages that no worker has answered yet."""
OPEN = f"{KEYS}open"
"""The judgements that have no outcome yet, by the time at which they were asked for."""
DEAD = f"{KEYS}dead"
"""The list of what stood in the queue and was no message: the newest entries, cut short."""
ACCOUNT = f"{KEYS}account"
WORKERS = f"{KEYS}workers"
RESULTS = f"{KEYS}results."
"""Begins the key of the outcomes that return to a host."""
READER = f"{KEYS}reader."
"""Begins the key that says which process of a host reads them."""
