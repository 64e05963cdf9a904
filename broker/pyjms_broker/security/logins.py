"""What a client shows of itself, and what decides who it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from pyjms_broker.api.context import SecurityContext

__all__ = ["Authenticator", "Credentials"]


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client has given; None: nothing."""

    user_name: str | None
    password: str | None = field(default=None, repr=False)
    subject: str | None = None
    """The distinguished name of its TLS certificate, which the handshake has verified."""
    uses_tls: bool = False
    """Whether its connector is one with TLS."""


class Authenticator(Protocol):
    """Decides who clients are."""

    @property
    def concurrency(self) -> int:
        """How many checks may run at once, each in a thread."""

    def load(self) -> None:
        """Read what is needed to check clients; blocking.

        Raises:
            ConfigurationException: it cannot be read.
        """

    def anonymous(self, credentials: Credentials) -> SecurityContext | None:
        """Return who a client is that has given nothing to check; None: it is to be checked."""

    def is_quick(self, credentials: Credentials) -> bool:
        """Whether `authenticate` neither blocks nor takes long."""

    def authenticate(self, credentials: Credentials) -> SecurityContext | None:
        """Return who a client is; None: it is refused. May block, and runs in a thread.

        Raises:
            JMSSecurityException: it cannot be checked at present; no failed login.
        """
