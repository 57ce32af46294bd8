"""Reading extraction records: values, the passages they came from, and their rivals.

An extraction goes wrong in its own way: the value is copied faithfully, from the right document,
and answers another question (the subtotal instead of the total). What tells the two apart is what
stands around the value and around every other value of its kind. This room reads that and judges
nothing: `llmeval_sdk.heuristics.extraction` makes scores of it, and the judge
``extraction_correctness`` shows the rivals to its model.
"""

from llmeval_sdk.text.extraction._values import abstained, items, normal
from llmeval_sdk.text.extraction.reading import (
    MAX_SHOWN,
    MAX_VALUES,
    Reading,
    read,
    rivals,
    value_of,
    values_of,
)


__all__ = [
    "MAX_SHOWN",
    "MAX_VALUES",
    "Reading",
    "abstained",
    "items",
    "normal",
    "read",
    "rivals",
    "value_of",
    "values_of",
]
