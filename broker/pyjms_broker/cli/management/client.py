"""What the commands need of a running broker: its management views, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol, TypeAlias

__all__ = ["DEFAULT_URL", "Attributes", "ManagementClient"]

DEFAULT_URL: Final = "http://localhost:8161/api/jolokia"
"""Where a broker's web server is, unless an option says otherwise."""

Attributes: TypeAlias = Mapping[str, object]


class ManagementClient(Protocol):
    """Access to the management views of one broker. All calls block.

    All raise JMSException: the broker cannot be reached, refuses the login or the request, or has
    no such view, attribute or operation.
    """

    @property
    def url(self) -> str:
        """Where the broker is, for messages."""

    def search(self, pattern: str) -> list[str]:
        """Return the names of the views that a pattern matches, sorted."""

    def read(self, name: str, *attributes: str) -> Attributes:
        """Return attributes of one view; all unless named."""

    def read_all(self, pattern: str, *attributes: str) -> dict[str, Attributes]:
        """Return attributes of all views that a pattern matches, by name; {} if there is none."""

    def write(self, name: str, attribute: str, value: object) -> object:
        """Set an attribute; return its former value."""

    def execute(self, name: str, operation: str, *arguments: object) -> object:
        """Invoke an operation; return its result once its changes are stored."""
