"""Problems of handlers, each with the file and line of the function."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyjms._yaml import Problems, UnknownPlaceholder
from pyjms.annotation.jms_listener import JmsListenerMark
from pyjms.errors import ConfigurationException, JMSException

__all__ = ["HandlerProblems", "handler_name"]

_TEXTS: Final = (
    "destination",
    "id",
    "container_factory",
    "subscription",
    "selector",
    "concurrency",
)


class HandlerProblems:
    """Adds the problems of one handler to those of a check.

    Args:
        handler: the function.
        problems: the problems of the whole check.
        is_partial: settings are missing, so that unknown placeholders are not reported.
    """

    def __init__(
        self, handler: Callable[..., Any], problems: Problems, *, is_partial: bool
    ) -> None:
        self._problems = problems
        self._is_partial = is_partial
        self._handler = handler
        self.name: str = handler_name(handler)

    def add(self, error: JMSException | ValueError, prefix: str = "") -> None:
        """Add each problem of an error, with file, line and `prefix` before its text."""
        source, line = _location(self._handler)
        where = f"{source}:{line}: " if source else ""
        for problem in error.problems if isinstance(error, ConfigurationException) else (error,):
            reason, hint = str(problem), ""
            if isinstance(problem, JMSException):
                reason, hint = problem.reason, problem.hint
            if isinstance(problem, UnknownPlaceholder) and self._is_partial:
                continue
            self._problems.add(
                ConfigurationException(
                    f"{where}{prefix}{reason}", source=source, line=line, hint=hint
                )
            )

    @contextmanager
    def caught(self, prefix: str = "") -> Iterator[None]:
        """Add the error that the block raises."""
        try:
            yield
        except (JMSException, ValueError) as error:
            self.add(error, prefix)

    def resolved(
        self, mark: JmsListenerMark, resolve: Callable[[str], str]
    ) -> dict[str, Any] | None:
        """Return the mark's texts with placeholders replaced; None if some cannot be."""
        texts: dict[str, Any] = {}
        for name in _TEXTS:
            with self.caught():
                text = getattr(mark, name)
                texts[name] = None if text is None else resolve(text)
        if len(texts) < len(_TEXTS):
            return None
        factory = texts["container_factory"] or None
        return {**texts, "id": texts["id"] or "", "container_factory": factory}


def handler_name(handler: Callable[..., Any]) -> str:
    """Return the module and name of a handler."""
    return f"{handler.__module__}.{getattr(handler, '__qualname__', repr(handler))}"


def _location(handler: Callable[..., Any]) -> tuple[str | None, int | None]:
    """Return file and line of a function; the file relative to the current directory if inside."""
    code = getattr(inspect.unwrap(handler), "__code__", None)
    if code is None:
        return None, None
    path = os.path.relpath(code.co_filename)
    return code.co_filename if path.startswith(os.pardir) else path, code.co_firstlineno
