"""The authentication filter. (activemq-edges SE1, SE3; activemq-broker C2)"""

from __future__ import annotations

import logging
from functools import partial

import anyio
import anyio.to_thread

from pyjms._wakeup import BackgroundTask, end_tasks, spawn
from pyjms.errors import JMSSecurityException
from pyjms.wire.openwire.commands import ConnectionInfo
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import Completion, wait_for
from pyjms_broker.api.context import ConnectionContext, SecurityContext
from pyjms_broker.api.filter import BrokerFilter
from pyjms_broker.security.audit import audit
from pyjms_broker.security.certificates import distinguished_name
from pyjms_broker.security.failed_logins import FailedLogins, address_key
from pyjms_broker.security.logins import Authenticator, Credentials

__all__ = ["AuthenticationBroker"]


class AuthenticationBroker(BrokerFilter):
    """Authenticates the client of each connection before any other request.

    Slow checks, such as comparing with a scrypt hash or reading files, run in threads, never on the
    event loop; the authenticator limits their concurrency.
    Source: ActiveMQ SimpleAuthenticationBroker, JaasAuthenticationBroker.

    Args:
        next_broker: the rest of the chain.
        authenticator: authenticates clients.
        failed_logins: refuses addresses with too many failures.
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
        """Load the users.

        Raises:
            ConfigurationException: they cannot be loaded.
        """
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
        self._failed_logins.failed(address_key(info.client_ip))
        raise JMSSecurityException(f"User name [{name}] or password is invalid.")


def _credentials(context: ConnectionContext, info: ConnectionInfo) -> Credentials:
    scheme = (context.connector_url or "").partition(":")[0]
    subject = None
    if context.certificate is not None:
        subject = distinguished_name(context.certificate)
    return Credentials(info.user_name, info.password, subject, "ssl" in scheme or scheme == "wss")
