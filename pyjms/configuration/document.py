"""Values with their origins, the merging of two layers, and the problems found in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from pyjms.errors import ConfigurationException, JMSException

APPLICATION_PREFIX: Final = "PYJMS_"
"""`PYJMS_JMS__LISTENER__MAX_CONCURRENCY` is `jms.listener.max_concurrency` of application.yaml."""
BROKER_PREFIX: Final = "PYJMS_BROKER__"
"""`PYJMS_BROKER__SYSTEM_USAGE__MEMORY_LIMIT` is `system_usage.memory_limit` of broker.yaml."""

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
        parts = (str(origin) if origin else "", dotted_path(path), reason)
        return ConfigurationException(
            ": ".join(part for part in parts if part),
            source=origin.source if origin else None,
            line=origin.line if origin else None,
            hint=hint,
        )


def dotted_path(path: Path) -> str:
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


class Problems:
    """The problems that a check has found so far, and the parts that it could not check."""

    def __init__(self) -> None:
        self.found: list[ConfigurationException] = []
        self.unchecked: list[str] = []
        """A sentence about each part that could not be checked because of other problems."""
        self.hints: list[str] = []
        """What is valid but may surprise; no problem."""
        self.lacks_files: bool = False
        """Whether a file could not be read, so that its settings are unknown."""
        self.paths: set[Path] = set()
        """The paths of values that already have an error."""

    def __bool__(self) -> bool:
        return bool(self.found)

    def add(self, error: JMSException | ValueError) -> None:
        """Add an error, or each of the problems that it combines."""
        if isinstance(error, ConfigurationException):
            self.found.extend(error.problems)
        else:
            self.found.append(ConfigurationException(str(error)))

    def add_at(self, path: Path, error: ConfigurationException) -> None:
        """Add a value's error; later errors of the same value are ignored, as its consequences."""
        if not self.is_known(path):
            self.add(error)
            self.mark(path)

    def mark(self, path: Path) -> None:
        """Ignore later errors of a value."""
        self.paths.add(path)

    def is_known(self, path: Path) -> bool:
        """Return whether a value, or a section that contains it, has an error."""
        return any(path[:length] in self.paths for length in range(1, len(path) + 1))

    def extend(self, others: Problems) -> None:
        """Add the problems of another check."""
        self.found.extend(others.found)
        self.unchecked.extend(others.unchecked)
        self.hints.extend(others.hints)
        self.lacks_files = self.lacks_files or others.lacks_files

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Catch and add the error that the block raises."""
        try:
            yield
        except (JMSException, ValueError) as error:
            self.add(error)

    def raise_all(self) -> None:
        """Raise one ConfigurationException with all problems, if there are any."""
        if self.found:
            raise ConfigurationException.join(self.found)
