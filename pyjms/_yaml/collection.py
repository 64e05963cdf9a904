"""The collected problems of a check: the first problem does not hide the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyjms._yaml.document import Path
from pyjms.errors import ConfigurationException, JMSException

__all__ = ["Problems", "collected_in"]


class Problems:
    """The problems that a check has found so far, and the parts that it could not check."""

    def __init__(self) -> None:
        self.found: list[ConfigurationException] = []
        self.unchecked: list[str] = []
        """A sentence about each part that could not be checked because of other problems."""
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
            raise ConfigurationException.joined(self.found)


@contextmanager
def collected_in(problems: Problems | None) -> Iterator[Problems]:
    """Yield `problems`; or, if it is None, a new collection that is raised at the end."""
    own = Problems() if problems is None else problems
    yield own
    if problems is None:
        own.raise_all()
