"""Credentials of clients, and the interface of authenticators."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from pyjms_broker.api.context import SecurityContext

__all__ = ["Authenticator", "Credentials"]


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a client; None: not given."""

    user_name: str | None
    password: str | None = field(default=None, repr=False)
    subject: str | None = None
    """The distinguished name of its verified TLS certificate."""
    uses_tls: bool = False
    """Whether its connector uses TLS."""


class Authenticator(Protocol):
    """Authenticates clients."""

    @property
    def concurrency(self) -> int:
        """The maximum number of concurrent checks, each in a thread."""

    def load(self) -> None:
        """Load the data for authentication. Blocks.

        Raises:
            ConfigurationException: the data cannot be loaded.
        """

    def anonymous(self, credentials: Credentials) -> SecurityContext | None:
        """Return the user of a client without credentials; None: it must be authenticated."""

    def is_quick(self, credentials: Credentials) -> bool:
        """Return whether `authenticate` neither blocks nor takes long."""

    def authenticate(self, credentials: Credentials) -> SecurityContext | None:
        """Return the user of a client; None: it is refused. May block; called in a thread.

        Raises:
            JMSSecurityException: it cannot be checked at present; not a failed login.
        """
