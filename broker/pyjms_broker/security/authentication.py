"""The authentication filter. (activemq-edges SE1, SE3; activemq-broker C2)"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NoReturn, Protocol

import anyio
import anyio.to_thread

from pyjms.errors import JMSSecurityException
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.wire.openwire.commands import ConnectionInfo
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.completion import Completion, wait_for
from pyjms_broker.api.context import ConnectionContext, SecurityContext
from pyjms_broker.security.audit import audit
from pyjms_broker.security.failed_logins import FailedLogins, LoginTurns, Origin, address_key


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

    def may_exist(self, user_name: str) -> bool:
        """Return whether there may be such a user, so that failures count for the user alone."""

    def user_groups(self) -> Mapping[str, frozenset[str]] | None:
        """Return all users with their groups, as known; None: they cannot be listed. Quick."""
        return None

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


class AuthenticationBroker(BrokerFilter):
    """Authenticates the client of each connection before any other request.

    Slow checks, such as comparing with a scrypt hash or reading files, run in threads, never on the
    event loop; the authenticator limits their concurrency, and addresses take turns.
    Source: ActiveMQ SimpleAuthenticationBroker, JaasAuthenticationBroker.
    """

    def __init__(
        self, next_broker: Broker, authenticator: Authenticator, failed_logins: FailedLogins
    ) -> None:
        super().__init__(next_broker)
        self._authenticator = authenticator
        self._failed_logins = failed_logins
        self._turns = LoginTurns(authenticator.concurrency)
        self._checks: set[BackgroundTask] = set()
        self._failed_count = 0
        self._usual_seconds = 0.0
        """The duration of the last slow check; refused logins take as long, but no computing."""

    @property
    def authenticates_clients(self) -> bool:
        return True

    @property
    def user_groups(self) -> Mapping[str, frozenset[str]] | None:
        """All users with their groups; None: the authenticator cannot list them."""
        return self._authenticator.user_groups()

    @property
    def failed_login_count(self) -> int:
        return self._failed_count

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
        self._turns = LoginTurns(authenticator.concurrency)

    async def stop(self) -> None:
        await end_tasks(*self._checks)
        await super().stop()

    def add_connection(self, context: ConnectionContext, info: ConnectionInfo) -> None:
        """Pass on the connection of an authenticated user.

        If the connector has not called `authenticate`, this does so, on the event loop.
        """
        if context.security is None:
            self._check_now(_Login(context, info, self._authenticator))
        super().add_connection(context, info)

    def authenticate(self, context: ConnectionContext, info: ConnectionInfo) -> Completion:
        if context.security is not None:
            return super().authenticate(context, info)
        login = _Login(context, info, self._authenticator)
        credentials = login.credentials
        if self._authenticator.anonymous(credentials) or self._authenticator.is_quick(credentials):
            self._check_now(login)
            return super().authenticate(context, info)
        completion = Completion()
        task = spawn(self._check_later, login, completion, name=f"login from {info.client_ip}")
        self._checks.add(task)
        completion.then(lambda _: self._checks.discard(task))
        return completion

    def _check_now(self, login: _Login) -> None:
        anonymous = self._authenticator.anonymous(login.credentials)
        if anonymous is not None:
            login.context.security = anonymous
        elif self._failed_logins.is_refused(login.origin, login.known_user):
            self._refuse(login)
        else:
            self._finish(login, self._authenticator.authenticate(login.credentials))

    async def _check_later(self, login: _Login, completion: Completion) -> None:
        try:
            async with self._turns.turn(None if login.origin is None else login.origin.address):
                if self._failed_logins.is_refused(login.origin, login.known_user):
                    await _clock.sleep(self._usual_seconds)
                    self._refuse(login)
                began = _clock.stopwatch()
                check = partial(login.authenticator.authenticate, login.credentials)
                found = await anyio.to_thread.run_sync(check)
                if found is None:
                    self._usual_seconds = _clock.stopwatch() - began
            self._finish(login, found)
            await wait_for(super().authenticate(login.context, login.info))
            completion.complete()
        except Exception as error:
            completion.complete(error)
        finally:
            completion.complete(JMSSecurityException("The broker stops"))

    def _finish(self, login: _Login, found: SecurityContext | None) -> None:
        if found is None:
            self._refuse(login)
        login.context.security = found

    def _refuse(self, login: _Login) -> NoReturn:
        info, context = login.info, login.context
        name = "null" if info.user_name is None else info.user_name
        act = f"log in at connector {context.connector_name}"
        audit(name, info.client_ip, act, "refused", level=logging.WARNING)
        self._failed_count += 1
        self._failed_logins.check(login.origin)
        self._failed_logins.count(login.origin, login.known_user)
        raise JMSSecurityException(f"User name [{name}] or password is invalid.")


class _Login:
    """A client's login, with what is asked of it more than once."""

    def __init__(
        self, context: ConnectionContext, info: ConnectionInfo, authenticator: Authenticator
    ) -> None:
        self.context = context
        self.info = info
        self.authenticator = authenticator
        self.credentials = _credentials(context, info)
        address = address_key(info.client_ip)
        is_web = context.connector_url is None
        self.origin = None if address is None else Origin(address, is_web)
        name = info.user_name
        self.known_user = name if name is not None and authenticator.may_exist(name) else None


def _credentials(context: ConnectionContext, info: ConnectionInfo) -> Credentials:
    scheme = (context.connector_url or "").partition(":")[0]
    subject = None
    if context.certificate is not None:
        subject = distinguished_name(context.certificate)
    return Credentials(info.user_name, info.password, subject, "ssl" in scheme or scheme == "wss")
