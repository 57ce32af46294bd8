"""A text that nobody may see by accident."""

from __future__ import annotations

from collections.abc import Callable


class Secret:
    """Text that never prints: its repr, str and pickle do not hold it."""

    __slots__ = ("_reveal",)

    def __init__(self, text: str) -> None:
        self._reveal: Callable[[], str] = lambda: text

    def reveal(self) -> str:
        """Return the text itself, for the one place that sends it."""
        return self._reveal()

    def __repr__(self) -> str:
        return "Secret('***')"

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return (Secret, ("***",))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.reveal() == self.reveal()

    def __hash__(self) -> int:
        return hash(self.reveal())
