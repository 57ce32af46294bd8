"""Random draws that are the same everywhere for the same id.

A draw is a keyed BLAKE2b of the id, so it is uniform for ids that are not random (sequential test
ids, 64-bit ids padded to 128) and independent of samplers that look at the id's low bits, such as
OpenTelemetry's ratio sampler: a stream cut to 1 % at its head is still sampled at the asked rate.
``draw < rate`` keeps a lower rate's set inside a higher one's.
"""

from __future__ import annotations

import random
from hashlib import blake2b


_SAMPLING = blake2b(digest_size=8, person=b"sampling")
_ESCALATION = blake2b(digest_size=8, person=b"escalation")
_UNIT = 2.0**-53


def sampling_draw(trace_id: str | None) -> float:
    """Draw from 0..1 (1 excluded) for a trace; a missing id draws afresh each time."""
    return _draw(_SAMPLING, trace_id)


def escalation_draw(key: str | None) -> float:
    """Draw from 0..1 (1 excluded) for one evaluated span, independently of `sampling_draw`."""
    return _draw(_ESCALATION, key)


def _draw(salted: blake2b, key: str | None) -> float:
    if not key:
        return random.random()  # noqa: S311 - sampling, not a secret
    digest = salted.copy()
    digest.update(key.encode("utf-8", "surrogatepass"))
    return (int.from_bytes(digest.digest(), "big") >> 11) * _UNIT
