"""Values with their origins, and the merging of two layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from pyjms.errors import ConfigurationException

__all__ = ["Document", "Origin", "Path", "dotted", "merge"]

Path: TypeAlias = tuple[str | int, ...]


class Origin(NamedTuple):
    """The source of a value: a file with a line (from 1), or an environment variable."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True, slots=True)
class Document:
    """Plain values (dict, list, str, int, float, bool, None) and the origin of each path."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: Mapping[Path, Origin] = field(default_factory=dict)

    def origin(self, path: Path) -> Origin | None:
        """Return the origin of the value at `path`, or of the nearest section that contains it."""
        for length in range(len(path), -1, -1):
            if origin := self.origins.get(path[:length]):
                return origin
        return None

    def problem(self, path: Path, reason: str, hint: str = "") -> ConfigurationException:
        """Return the error for the value at `path`."""
        origin = self.origin(path)
        parts = (str(origin) if origin else "", dotted(path), reason)
        return ConfigurationException(
            ": ".join(part for part in parts if part),
            source=origin.source if origin else None,
            line=origin.line if origin else None,
            hint=hint,
        )


def dotted(path: Path) -> str:
    """Return a path as text, such as `jms.listener.session` or `connectors[0].uri`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def merge(base: Document, over: Document) -> Document:
    """Return `base` overridden by `over`: mappings are merged, everything else is replaced."""
    origins = dict(base.origins)
    values = _merge_values(base.values, over.values, (), origins)
    origins.update(over.origins)
    if root := base.origins.get(()):
        origins[()] = root
    return Document(values, origins)


def _merge_values(
    base: dict[str, Any], over: dict[str, Any], path: Path, origins: dict[Path, Origin]
) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        inner = (*path, key)
        lower = merged.get(key)
        if isinstance(lower, dict) and isinstance(value, dict):
            merged[key] = _merge_values(lower, value, inner, origins)
            continue
        merged[key] = value
        for stale in [known for known in origins if known[: len(inner)] == inner]:
            del origins[stale]
    return merged
