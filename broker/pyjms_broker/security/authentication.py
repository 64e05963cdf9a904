"""The authentication filter. (activemq-edges SE1, SE3; activemq-broker C2)"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any, Final, Protocol

import anyio
import anyio.to_thread

from pyjms.errors import JMSSecurityException
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import ConnectionInfo
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.completion import Completion, wait_for
from pyjms_broker.api.context import ConnectionContext, SecurityContext
from pyjms_broker.security.audit import audit

logger = get_logger(__name__)


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

    concurrency: int
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


_KEYWORDS: Final = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "title": "T",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "dnQualifier": "DNQ",
    "surname": "SURNAME",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "generationQualifier": "GENERATION",
    "emailAddress": "EMAILADDRESS",
    "userId": "UID",
    "serialNumber": "SERIALNUMBER",
}
"""OpenSSL's attribute names, and Java's."""
_QUOTED: Final = re.compile(r'[,+=\n<>#;\\"]|^\s|\s$|  ')


def distinguished_name(certificate: Mapping[str, Any]) -> str:
    """Return the subject of a certificate in the form of `ssl.SSLSocket.getpeercert`.

    The parts are in reverse order: `CN=client, O=Company, C=DE`. Source: Java X500Name.getName.
    """
    return ", ".join(
        " + ".join(f"{_KEYWORDS.get(name, name)}={_java_text(value)}" for name, value in part)
        for part in reversed(certificate.get("subject", ()))
    )


def _java_text(value: str) -> str:
    if _QUOTED.search(value) is None:
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


_MAXIMUM_ADDRESSES: Final = 10_000
"""The maximum number of recorded addresses; the oldest ones are dropped."""
_IPV6_NETWORK: Final = 64
"""The prefix length of an IPv6 network that usually belongs to one customer."""


class FailedLogins:
    """Counts the failed logins of each address within a period, to slow down guessing.

    Args:
        maximum: the number of failed logins after which an address is refused; 0: no limit.
        period: seconds after the first failure until the failures of an address expire.
    """

    def __init__(self, maximum: int, period: float) -> None:
        self._maximum = maximum
        self._period = period
        self._failures: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """By address: the beginning of the period, and the number of failures since."""

    def check(self, address: str | None) -> None:
        """Check that an address has not failed too often; None is always accepted."""
        began, count = self._current(address)
        if self._maximum and count >= self._maximum:
            left = began + self._period - _clock.now()
            raise JMSSecurityException(
                f"Too many failed logins from {address}: further ones are refused for {left:.0f} s"
            )

    def count(self, address: str | None) -> None:
        """Count a failed login."""
        if address is None or not self._maximum:
            return
        began, count = self._current(address)
        self._failures[address] = began, count + 1
        if count + 1 == self._maximum:
            logger.warning(
                "%d logins from %s have failed: further ones are refused for %g s",
                self._maximum,
                address,
                began + self._period - _clock.now(),
            )
        while len(self._failures) > _MAXIMUM_ADDRESSES:
            self._failures.popitem(last=False)

    def _current(self, address: str | None) -> tuple[float, int]:
        now = _clock.now()
        known = None if address is None else self._failures.get(address)
        if known is not None and known[0] + self._period <= now:
            del self._failures[address or ""]
            known = None
        return (now, 0) if known is None else known


def address_key(remote_address: str | None) -> str | None:
    """Return the key for a client's failed logins; None for clients in the process.

    It is the IPv4 address, or the IPv6 network.
    """
    if remote_address is None or remote_address.startswith("vm:"):
        return None
    host = remote_address.rpartition("://")[2].rpartition(":")[0].strip("[]")
    try:
        address: IPv4Address | IPv6Address = ip_address(host.partition("%")[0])
    except ValueError:
        return remote_address.rpartition(":")[0]
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(IPv6Network((address, _IPV6_NETWORK), strict=False))
    return str(address)


class AuthenticationBroker(BrokerFilter):
    """Authenticates the client of each connection before any other request.

    Slow checks, such as comparing with a scrypt hash or reading files, run in threads, never on the
    event loop; the authenticator limits their concurrency.
    Source: ActiveMQ SimpleAuthenticationBroker, JaasAuthenticationBroker.
    """

    def __init__(
        self, next_broker: Broker, authenticator: Authenticator, failed_logins: FailedLogins
    ) -> None:
        super().__init__(next_broker)
        self._authenticator = authenticator
        self._failed_logins = failed_logins
        self._turns = anyio.Semaphore(authenticator.concurrency)
        self._checks: set[BackgroundTask] = set()

    @property
    def authenticates_clients(self) -> bool:
        return True

    async def start(self) -> None:
        """Load the users."""
        await anyio.to_thread.run_sync(self._authenticator.load)
        await super().start()

    async def change(self, authenticator: Authenticator, failed_logins: FailedLogins) -> None:
        """Use another authenticator for later logins; existing connections remain.

        Raises:
            ConfigurationException: its users cannot be loaded; nothing is changed.
        """
        await anyio.to_thread.run_sync(authenticator.load)
        self._authenticator, self._failed_logins = authenticator, failed_logins
        self._turns = anyio.Semaphore(authenticator.concurrency)

    async def stop(self) -> None:
        await end_tasks(*self._checks)
        await super().stop()

    def add_connection(self, context: ConnectionContext, info: ConnectionInfo) -> None:
        """Pass on the connection of an authenticated user.

        If the connector has not called `authenticate`, this does so, on the event loop.
        """
        if context.security is None:
            self._check_now(context, info)
        super().add_connection(context, info)

    def authenticate(self, context: ConnectionContext, info: ConnectionInfo) -> Completion:
        if context.security is not None:
            return super().authenticate(context, info)
        credentials = _credentials(context, info)
        if self._authenticator.anonymous(credentials) or self._authenticator.is_quick(credentials):
            self._check_now(context, info)
            return super().authenticate(context, info)
        return self._check_in_thread(context, info)

    def _check_now(self, context: ConnectionContext, info: ConnectionInfo) -> None:
        credentials = _credentials(context, info)
        anonymous = self._authenticator.anonymous(credentials)
        if anonymous is not None:
            context.security = anonymous
            return
        self._failed_logins.check(address_key(info.client_ip))
        self._finish(context, info, self._authenticator.authenticate(credentials))

    def _check_in_thread(self, context: ConnectionContext, info: ConnectionInfo) -> Completion:
        self._failed_logins.check(address_key(info.client_ip))
        completion = Completion()
        task = spawn(
            self._check_later, context, info, completion, name=f"login from {info.client_ip}"
        )
        self._checks.add(task)
        completion.then(lambda _: self._checks.discard(task))
        return completion

    async def _check_later(
        self, context: ConnectionContext, info: ConnectionInfo, completion: Completion
    ) -> None:
        try:
            async with self._turns:
                self._failed_logins.check(address_key(info.client_ip))  # others may have failed
                check = partial(self._authenticator.authenticate, _credentials(context, info))
                found = await anyio.to_thread.run_sync(check)
            self._finish(context, info, found)
            await wait_for(super().authenticate(context, info))
            completion.complete()
        except Exception as error:
            completion.complete(error)
        finally:
            completion.complete(JMSSecurityException("The broker stops"))

    def _finish(
        self, context: ConnectionContext, info: ConnectionInfo, found: SecurityContext | None
    ) -> None:
        if found is not None:
            context.security = found
            return
        name = "null" if info.user_name is None else info.user_name
        act = f"log in at connector {context.connector_name}"
        audit(name, info.client_ip, act, "refused", level=logging.WARNING)
        self._failed_logins.count(address_key(info.client_ip))
        raise JMSSecurityException(f"User name [{name}] or password is invalid.")


def _credentials(context: ConnectionContext, info: ConnectionInfo) -> Credentials:
    scheme = (context.connector_url or "").partition(":")[0]
    subject = None
    if context.certificate is not None:
        subject = distinguished_name(context.certificate)
    return Credentials(info.user_name, info.password, subject, "ssl" in scheme or scheme == "wss")
