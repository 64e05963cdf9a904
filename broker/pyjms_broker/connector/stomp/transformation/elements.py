"""The element tree between values and their XML or JSON, as in XStream."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pyjms.errors import MessageFormatException

__all__ = ["MAXIMUM_DEPTH", "Counter", "Element"]

MAXIMUM_DEPTH: Final = 64
_MAXIMUM_ELEMENTS: Final = 32_000


@dataclass(slots=True)
class Element:
    """A name with a text or children; with neither, it is empty."""

    name: str
    text: str | None = None
    children: list[Element] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)


class Counter:
    """Limits the elements of one body, because a small text may have many elements."""

    def __init__(self) -> None:
        self._elements = 0

    def add(self, depth: int) -> None:
        """Count an element at `depth`.

        Raises:
            MessageFormatException: there are too many, or they are nested too deeply.
        """
        self._elements += 1
        if self._elements > _MAXIMUM_ELEMENTS or depth > MAXIMUM_DEPTH:
            raise MessageFormatException(
                f"A body has at most {_MAXIMUM_ELEMENTS} elements, nested at most {MAXIMUM_DEPTH} "
                "deep"
            )
