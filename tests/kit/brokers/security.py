"""Brokers with users, and clients that log in."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import ConnectionId, ConnectionInfo, SessionInfo
from pyjms_broker.api.context import SecurityContext
from pyjms_broker.service import BrokerService
from pyjms_broker.settings.security import SimpleAuthenticationSettings, UserSettings
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.raw import RawClient

_numbers = itertools.count(1)


def user(username: str, groups: str = "", password: str = "secret") -> UserSettings:
    return UserSettings.model_validate(
        {"username": username, "password": password, "groups": groups}
    )


def simple(*users: UserSettings, **settings: Any) -> SimpleAuthenticationSettings:
    return SimpleAuthenticationSettings(users=users, **settings)


class SecuredBroker:
    """A running broker with plug-ins."""

    def __init__(self, broker: EmbeddedTestBroker) -> None:
        self.broker = broker
        self.service = broker.service
        self.clients: list[RawClient] = []

    async def client(
        self,
        user_name: str | None = None,
        password: str | None = "secret",
        *,
        url: str | None = None,
        name: str | None = None,
        client_id: str | None = None,
    ) -> RawClient:
        """Return a client that has logged in; the broker's refusal is raised."""
        client = RawClient(create_transport(url or self.broker.url))
        self.clients.append(client)
        if name is not None:
            client.take_name(name)
        await client.transport.start()
        if user_name is None:
            password = None
        client_id = client_id or client.name
        await client.request(ConnectionInfo(client.connection_id, client_id, password, user_name))
        client.send_command(SessionInfo(client.session_id))
        return client

    @property
    def logins(self) -> list[tuple[str, frozenset[str]]]:
        """The principals of the clients that are connected."""
        return [(user.user_name, user.groups) for _, user in self._principals()]

    def principal(self, client: RawClient) -> str:
        """Return who a client is, with its groups: `name:group:group`."""
        user = next(user for name, user in self._principals() if name == client.connection_id)
        return ":".join((user.user_name, *sorted(user.groups)))

    def _principals(self) -> Iterator[tuple[ConnectionId, SecurityContext]]:
        for connection in self.service.connections.by_id.values():
            for state in connection.resources.connections.values():  # type: ignore[attr-defined]
                yield state.context.connection_id, state.context.security


StartSecured = Callable[..., AbstractAsyncContextManager[SecuredBroker]]


@pytest.fixture
def secured() -> StartSecured:
    """Starts a broker with these plug-ins."""

    @asynccontextmanager
    async def start(*plugins: Any, **attributes: Any) -> AsyncIterator[SecuredBroker]:
        service = BrokerService(
            f"secured-{next(_numbers)}", persistent=False, plugins=plugins, **attributes
        )
        async with EmbeddedTestBroker(service) as broker:
            made = SecuredBroker(broker)
            try:
                yield made
            finally:
                for client in made.clients:
                    await client.cut()

    return start
