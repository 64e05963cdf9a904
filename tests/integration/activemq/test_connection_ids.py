"""Requests that name a connection other than the one they come over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from pyjms.errors import InvalidDestinationException
from pyjms.jms.destination import Queue, Topic
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import (
    ConnectionId,
    DestinationInfo,
    RemoveSubscriptionInfo,
    TransactionInfo,
    TransactionType,
    XATransactionId,
)
from tests.kit.clients.raw import RawClient

pytestmark = pytest.mark.activemq


@pytest.fixture
async def open_client(broker_url: str) -> AsyncIterator[Callable[..., Any]]:
    """Makes clients of bare commands with a client id, closed after the test."""
    async with AsyncExitStack() as stack:

        async def make(client_id: str) -> RawClient:
            client = RawClient(create_transport(broker_url))
            await client.open(client_id)
            stack.push_async_callback(client.close)
            return client

        yield make


@pytest.mark.fact("activemq-broker C10")
async def test_a_subscription_is_removed_over_another_connection(
    open_client: Callable[..., Any], name: str
) -> None:
    topic = Topic(name)
    own = await open_client(f"{name}-me")
    await own.consumer(topic, subscription_name="s", client_id=f"{name}-me")
    await own.close()
    other = await open_client(f"{name}-other")
    removal = RemoveSubscriptionInfo(own.connection_id, "s", f"{name}-me")
    await other.request(removal)
    with pytest.raises(InvalidDestinationException, match="No durable subscription exists"):
        await other.request(removal)


@pytest.mark.fact("activemq-broker C10")
async def test_the_only_connection_stands_for_the_one_that_is_named(
    open_client: Callable[..., Any], name: str
) -> None:
    client = await open_client(name)
    gone = ConnectionId("ID:gone:1")
    xid = XATransactionId(1, name.encode()[:60], b"b")
    await client.request(DestinationInfo(gone, Queue(name), 0))
    await client.request(TransactionInfo(gone, xid, TransactionType.BEGIN))
    await client.send(Queue(name), "x", transaction_id=xid)
    await client.request(TransactionInfo(gone, xid, TransactionType.COMMIT_ONE_PHASE))
    await client.consumer(Queue(name))
    assert (await client.dispatched()).message is not None
