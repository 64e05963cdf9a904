"""Client ids: one connection each, unless link stealing is allowed."""

from __future__ import annotations

from typing import cast

import pytest

from pyjms.errors import InvalidClientIDException
from pyjms.wire.openwire.commands import Command, MessageDispatch
from pyjms_broker.api.context import ClientConnection, ConnectionContext
from pyjms_broker.region.region_broker import ClientIds


class Connection:
    """A connection that leaves when it is told to."""

    remote_address = "tcp://10.0.0.1:5"
    is_lost = False

    def __init__(self) -> None:
        self.errors: list[Exception] = []

    def give_way(self, error: Exception) -> None:
        self.errors.append(error)

    def dispatch(self, dispatch: MessageDispatch) -> None:
        raise AssertionError(dispatch)

    def send_command(self, command: Command) -> None:
        raise AssertionError(command)

    def service_exception(self, error: Exception) -> None:
        raise AssertionError(error)

    def stop_soon(self, error: Exception | None = None) -> None:
        raise AssertionError(error)


@pytest.mark.fact("activemq-broker C1")
def test_a_client_id_belongs_to_one_connection_unless_links_may_be_stolen() -> None:
    clients = ClientIds("b")
    connection = Connection()
    first, second = (
        ConnectionContext(cast("ClientConnection", connection)),
        ConnectionContext(cast("ClientConnection", Connection())),
    )
    with pytest.raises(
        InvalidClientIDException, match=r"^No clientID specified for connection request$"
    ):
        clients.claim(None, first)
    clients.claim("c", first)
    clients.claim("c", first)
    clients.claim("other", second)
    with pytest.raises(
        InvalidClientIDException,
        match=r"^Broker: b - Client: c already connected from tcp://10\.0\.0\.1:5$",
    ):
        clients.claim("c", second)
    assert connection.errors == []

    second.allow_link_stealing = True
    clients.claim("c", second)
    assert [str(error) for error in connection.errors] == [
        "Stealing link for clientId c From Connection tcp://10.0.0.1:5"
    ]
    clients.release("c", first)  # it is no longer its own
    first.allow_link_stealing = False
    with pytest.raises(InvalidClientIDException):
        clients.claim("c", first)
    clients.release("c", second)
    clients.release(None, second)
    clients.claim("c", first)


def test_the_client_id_of_the_broker_cannot_be_stolen() -> None:
    clients = ClientIds("b")
    clients.claim("c", ConnectionContext())
    thief = ConnectionContext(cast("ClientConnection", Connection()))
    thief.allow_link_stealing = True
    with pytest.raises(InvalidClientIDException, match="already connected from the broker"):
        clients.claim("c", thief)


@pytest.mark.fact("activemq-broker C1")
def test_a_lost_connection_does_not_keep_its_client_id() -> None:
    """Its client may be back before the broker has removed what it left behind."""
    clients, connection = ClientIds("b"), Connection()
    clients.claim("c", ConnectionContext(cast("ClientConnection", connection)))
    connection.is_lost = True
    clients.claim("c", ConnectionContext(cast("ClientConnection", Connection())))
    assert [str(error) for error in connection.errors] == ["The client has connected again"]
