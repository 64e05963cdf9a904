"""The values of broker.yaml that a conversion has found so far, and where each came from."""

from __future__ import annotations

from typing import Any

from pyjms._yaml import Document, Origin
from pyjms_broker.conversion.findings import Findings
from pyjms_broker.conversion.xml_reader import Element

__all__ = ["Draft", "Path"]

Path = tuple[str | int, ...]


class Draft:
    """A growing document; `findings` names what is not in it."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self._values: dict[str, Any] = {}
        self._origins: dict[tuple[str | int, ...], Origin] = {}

    @property
    def document(self) -> Document:
        """The values with their origins in the XML."""
        return Document(self._values, self._origins)

    def put(self, path: Path, value: object, element: Element) -> None:
        """Set a value; sections that contain it are created."""
        level: Any = self._values
        for part in path[:-1]:
            level = level.setdefault(part, {}) if isinstance(level, dict) else level[part]
        level[path[-1]] = value
        self._origins[path] = element.origin

    def append(self, path: Path, value: object, element: Element) -> Path:
        """Add a value to a list; return its path."""
        items = self.get(path)
        if items is None:
            self.put(path, items := [], element)
        items.append(value)
        added = (*path, len(items) - 1)
        self._origins[added] = element.origin
        return added

    def get(self, path: Path) -> Any:
        """Return the value at `path`; None if there is none."""
        level: Any = self._values
        for part in path:
            try:
                level = level[part]
            except (KeyError, IndexError, TypeError):
                return None
        return level

    def drop(self, path: Path) -> None:
        """Remove a value of a list."""
        *start, index = path
        assert isinstance(index, int)
        del self.get(tuple(start))[index]
        length = len(path)
        kept: dict[Path, Origin] = {}
        for known, origin in self._origins.items():
            position = known[length - 1] if known[: length - 1] == tuple(start) != known else None
            if not isinstance(position, int) or position < index:
                kept[known] = origin
            elif position > index:
                kept[(*start, position - 1, *known[length:])] = origin
        self._origins = kept
