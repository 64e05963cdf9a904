"""Who sends a request, and what a path requires."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["NOBODY", "Access", "WebUser"]


class Access(Enum):
    """Who may request a path."""

    ANYBODY = "anybody"
    """Without a login."""
    USER = "a user"
    """Who is logged in; without users everybody who reaches the port."""
    READER = "a reader"
    """A user of `reader_groups` or `admin_groups`."""
    ADMINISTRATOR = "an administrator"
    """A user of `admin_groups`."""


@dataclass(frozen=True, slots=True)
class WebUser:
    """Who sends a request.

    Args:
        name: the user's name, empty without a login.
        groups: the user's groups.
        access: the highest right.
        password: what the user has logged in with, for connections in the user's name.
    """

    name: str = ""
    groups: frozenset[str] = frozenset()
    access: Access = Access.ANYBODY
    password: str | None = None

    def may(self, required: Access) -> bool:
        """Whether the user has a right."""
        return _ORDER[self.access] >= _ORDER[required]

    def __repr__(self) -> str:
        return f"WebUser({self.name!r}, {self.access.name})"


_ORDER = {access: number for number, access in enumerate(Access)}
NOBODY = WebUser()
"""A request without a login."""
