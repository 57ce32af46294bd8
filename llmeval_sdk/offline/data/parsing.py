"""JSON of strangers, and what else rows may hold: bounded before anything goes through it.

Python raises RecursionError for what is nested deeply, at a depth that depends on who calls, and
ValueError where a number of thousands of digits becomes text or is read from one. Both are said
here, of the row that they are in, and nothing behind it has to expect them.
"""

from __future__ import annotations

import json
from typing import Any


MOST_DEPTH = 100
"""Lists and mappings within each other, in one cell."""
MOST_BITS = 4_096
"""Of a whole number: about 1,200 digits. Python itself refuses to write more than 4,300."""


def read_json(text: str | bytes) -> Any:
    """Read JSON.

    Raises:
        ValueError: the end of a sentence that says what is wrong, and where that is known.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(_DEEP) from None
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} is no UTF-8") from None
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column" if error.lineno > 1 else "column"
        what = error.msg.removesuffix(" at")
        raise ValueError(f"is no JSON: {what} at {at} {error.colno}") from None
    except ValueError:  # the only other one that the decoder raises
        raise ValueError(_LONG) from None


def check_size(value: Any) -> None:
    """Raise ``ValueError`` for what is nested too deep or holds a number that cannot be written."""
    level, depth = [value], 0
    seen: set[int] = set()
    while level:
        if depth > MOST_DEPTH:
            raise ValueError(_DEEP)
        inner: list[Any] = []
        for each in level:
            kind = type(each)
            if kind in _SCALAR:
                continue
            if kind is int:
                if each.bit_length() > MOST_BITS:
                    raise ValueError(_LONG)
            elif id(each) not in seen:  # each container once, however often it is held
                if kind is dict:
                    seen.add(id(each))
                    inner += each.values()
                elif kind is list or kind is tuple:
                    seen.add(id(each))
                    inner += each
        level, depth = inner, depth + 1


_SCALAR = frozenset((str, float, bool, type(None)))
_DEEP = f"is nested too deep: at most {MOST_DEPTH} lists and mappings within each other"
_LONG = "holds a number of too many digits: write it as a text"
