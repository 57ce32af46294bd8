"""What must add up: the figures of a document, and the fields of one answer."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from llmeval_sdk.text.extraction import Reading
from llmeval_sdk.text.labels import GROUP_OF
from llmeval_sdk.text.values import normal


_NUMBER = re.compile(r"-?\d{1,12}(?:\.\d{1,6})?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TOLERANCE = 0.011
"""The error that rounding may leave in a sum of money."""
_MAX_AMOUNTS = 40
_PAID = frozenset(("paid", "change"))
"""Labels of what was handed over and given back. Such amounts may well exceed the total."""


def measure_sums(reading: Reading) -> dict[str, float]:
    """Compare a total with the other amounts of its document.

    ``exceeded``: the share of the other amounts, without those paid or given back, that are
    greater. ``no_sum``: another amount is greater, and no two amounts add up to the total.
    """
    if reading.concept != "total":
        return {}
    total = _number(reading.form)
    if total is None:
        return {}
    paid = {
        reading.passages.lowered.rfind("\n", 0, label.start)
        for label in reading.passages.labels("amount")
        if label.concept in _PAID
    }
    amounts: set[float] = set()
    others: set[float] = set()
    for rival in reading.rivals:
        amount = _number(normal(rival.value))
        if amount is None or len(amounts) == _MAX_AMOUNTS:
            continue
        amounts.add(amount)
        if reading.passages.lowered.rfind("\n", 0, rival.start) not in paid:
            others.add(amount)
    if len(amounts) < 2:
        return {}
    greater = sum(amount > total for amount in others)
    parts = [amount for amount in amounts if 0 < amount < total]
    is_sum = any(
        abs(first + second - total) < _TOLERANCE
        for place, first in enumerate(parts)
        for second in parts[place:]
    )
    return {
        "exceeded": greater / len(others) if others else 0.0,
        "no_sum": float(not is_sum and greater > 0),
    }


def _number(form: str) -> float | None:
    """Return the number that a value in its normal form is, if it is one."""
    match = _NUMBER.fullmatch(form)
    return float(match[0]) if match is not None else None


def contradictions(fields: Sequence[tuple[str, Reading]]) -> set[str]:
    """Return the paths of those fields of an answer that contradict each other.

    These are checked: subtotal plus tax is the total, quantity times price is the amount, the rate
    of the subtotal is the tax, and issue and start precede due date and end. Of a sum that does not
    come out, the field is returned for which the document has the amount that would make it come
    out. Where none has, or several have, nobody knows which is wrong, and all are returned. Of
    items that exceed the subtotal, the subtotal alone is returned.
    """
    scopes: dict[str, dict[str, tuple[str, Reading]]] = defaultdict(dict)
    amounts: dict[str, float] = defaultdict(float)
    for path, reading in fields:
        concept = reading.concept
        if concept not in GROUP_OF:
            continue
        if concept == "tax" and (reading.kind == "percent" or "rate" in path.lower()):
            concept = _RATE
        scopes[path.rpartition(".")[0]].setdefault(concept, (path, reading))
        number = _number(reading.form)
        if concept == "line_total" and number is not None and "[" in path:
            amounts[path.partition("[")[0]] += number
    wrong: set[str] = set()
    for scope in scopes.values():
        numbers = {
            concept: number
            for concept, (_, reading) in scope.items()
            if (number := _number(reading.form)) is not None
        }
        for needed in _failed(numbers):
            mended = [
                concept
                for concept, amounts_needed in needed.items()
                if any(_stands(amount, scope[concept][1]) for amount in amounts_needed)
            ]
            wrong.update(scope[one][0] for one in (mended if len(mended) == 1 else needed))
        for concepts in _orders(scope):
            wrong.update(scope[concept][0] for concept in concepts)
        subtotal = numbers.get("subtotal")
        if subtotal and any(total > subtotal + _TOLERANCE for total in amounts.values()):
            wrong.add(scope["subtotal"][0])
    return wrong


def _stands(amount: float, reading: Reading) -> bool:
    """Say whether the document has an amount as another value of a field's kind."""
    numbers = (_number(normal(rival.value)) for rival in reading.rivals)
    return any(number is not None and abs(number - amount) < _TOLERANCE for number in numbers)


_Needed = dict[str, tuple[float, ...]]
"""Concept -> the amounts, one of which it had to be for a sum to come out, if the others hold."""


def _failed(numbers: Mapping[str, float]) -> Iterator[_Needed]:
    """Yield, for each sum, product or rate that is wrong, what would make it right."""
    total, subtotal, tax = (numbers.get(name) for name in ("total", "subtotal", "tax"))
    if total is not None and subtotal is not None and tax is not None:
        more = numbers.get("shipping", 0.0) - abs(numbers.get("discount", 0.0))
        expected = (subtotal + tax, subtotal + tax + more, subtotal, subtotal + more)
        if all(abs(one - total) > 5 * _TOLERANCE for one in expected):
            yield {
                "total": expected[:2],
                "subtotal": (total - tax, total - tax - more),
                "tax": _positive(total - subtotal, total - subtotal - more),
            }
    rate = numbers.get(_RATE)
    if rate is not None and subtotal is not None and tax is not None:
        percent = rate if rate > 1 else 100 * rate
        if abs(subtotal * percent / 100 - tax) > max(0.02 * abs(tax), 5 * _TOLERANCE):
            yield {
                _RATE: (100 * tax / subtotal,) if subtotal else (),
                "tax": (subtotal * percent / 100,),
                "subtotal": (100 * tax / percent,) if percent else (),
            }
    quantity, price, amount = (
        numbers.get(name) for name in ("quantity", "unit_price", "line_total")
    )
    if quantity is None or price is None or amount is None:
        return
    if abs(quantity * price - amount) > max(0.01 * abs(amount), 5 * _TOLERANCE):
        yield {
            "quantity": (amount / price,) if price else (),
            "unit_price": (amount / quantity,) if quantity else (),
            "line_total": (quantity * price,),
        }


def _positive(*amounts: float) -> tuple[float, ...]:
    """Leave out what no tax is: many a document says 0.00 somewhere."""
    return tuple(amount for amount in amounts if amount > _TOLERANCE)


_RATE = "tax_rate"
_IN_ORDER = (("issue_date", "due_date"), ("start_date", "end_date"))


def _orders(scope: Mapping[str, tuple[str, Reading]]) -> Iterator[tuple[str, ...]]:
    """Yield two dates of which the later one should be the earlier one."""
    for first, last in _IN_ORDER:
        if first in scope and last in scope:
            before, after = scope[first][1].form, scope[last][1].form
            if _DATE.fullmatch(before) and _DATE.fullmatch(after) and before > after:
                yield first, last
