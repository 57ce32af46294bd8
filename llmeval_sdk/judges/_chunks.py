"""Rates each retrieved chunk and sums the ratings up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import TypeVar

from llmeval_sdk.judges._base import failure
from llmeval_sdk.model import Evaluation, Failure, Score


CONCURRENCY = 8
"""Chunks of one record that are judged at a time."""


T = TypeVar("T")


async def rate_chunks(
    name: str,
    chunks: Sequence[T],
    rate: Callable[[T], Awaitable[Evaluation]],
    *,
    same: Callable[[T], Hashable] = id,
    units: str = "chunks",
) -> Evaluation:
    """Rate all chunks at once and combine; chunks for which ``same`` is equal are rated once.

    Other ``units`` than chunks can be rated in the same way.
    """
    turns = asyncio.Semaphore(CONCURRENCY)

    async def one(chunk: T) -> Evaluation:
        async with turns:
            try:
                return await rate(chunk)
            except Exception as error:
                return Evaluation(name, error=failure(error))

    keys = [same(chunk) for chunk in chunks]
    distinct = dict(zip(keys, chunks, strict=True))
    rated = await asyncio.gather(*(one(chunk) for chunk in distinct.values()))
    by_key = dict(zip(distinct, rated, strict=True))
    return combine(name, [by_key[key] for key in keys], units)


def combine(name: str, rated: Sequence[Evaluation], units: str = "chunks") -> Evaluation:
    """Make one Evaluation of one per chunk, in rank order, or of one per other unit.

    The value is the precision, yes / rated, of yes/no ratings, the mean of scores, and ``None``
    for anything else or where no chunk could be rated. The metadata has one entry per chunk in
    ``ratings``, ``rationales`` and ``error_messages``, and the number that ``failed``.
    """
    errors = [one.error for one in rated if one.error is not None]
    ratings = [None if one.error is not None else one.value for one in rated]
    cut = list(dict.fromkeys(name for one in rated for name in one.metadata.get("cut", ())))
    value = _summary([rating for rating in ratings if rating is not None])
    error = None
    if errors and len(errors) == len(rated):
        message = f"none of {len(rated)} {units} could be rated: {errors[0].message}"
        error = Failure(errors[0].type, message)
    return Evaluation(
        name,
        value,
        error=error,
        metadata={
            "ratings": ratings,
            "rationales": [one.explanation for one in rated],
            "error_messages": [
                one.error and (one.error.message or one.error.type) for one in rated
            ],
            "failed": len(errors),
            **({"cut": cut} if cut else {}),
        },
    )


def _summary(ratings: Sequence[Score]) -> float | None:
    if ratings and all(rating in ("yes", "no") for rating in ratings):
        return sum(rating == "yes" for rating in ratings) / len(ratings)
    numbers = [rating for rating in ratings if type(rating) is float]
    return sum(numbers) / len(numbers) if numbers and len(numbers) == len(ratings) else None
