"""The interface through which the commands access a broker's management views, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol, TypeAlias

__all__ = ["DEFAULT_URL", "Attributes", "ManagementClient"]

DEFAULT_URL: Final = "http://localhost:8161/api/jolokia"
"""Default URL of a broker's web server."""

Attributes: TypeAlias = Mapping[str, object]


class ManagementClient(Protocol):
    """Access to the management views of one broker. All methods block.

    All raise JMSException if the broker cannot be reached, refuses the login or the request, or has
    no such view, attribute or operation.
    """

    @property
    def url(self) -> str:
        """The broker's URL, for output and errors."""

    def search(self, pattern: str) -> list[str]:
        """Return the sorted names of the views that match a pattern."""

    def read(self, name: str, *attributes: str) -> Attributes:
        """Return the named attributes of a view; all if none is named."""

    def read_all(self, pattern: str, *attributes: str) -> dict[str, Attributes]:
        """Return attributes by view name for all views that match a pattern; {} if none does."""

    def write(self, name: str, attribute: str, value: object) -> object:
        """Set an attribute; return its previous value."""

    def execute(self, name: str, operation: str, *arguments: object) -> object:
        """Invoke an operation; return its result once its changes are stored."""
