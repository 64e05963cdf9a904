"""A client that sends in XA transactions, and completes prepared ones after a reconnect."""

from __future__ import annotations

import itertools
import random
from typing import Final, NamedTuple

import anyio

from pyjms.errors import JMSException
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import (
    ActiveMQBytesMessage,
    DataArrayResponse,
    TransactionType,
    XATransactionId,
)
from pyjms.wire.openwire.primitives import encode_map
from tests.kit.clients.raw import RawClient
from tests.kit.soak.clients.links import Links
from tests.kit.soak.clients.senders import Numbers, body_of, checksum_of, destination_of
from tests.kit.soak.flows import Flow

__all__ = ["XaSender"]

_FORMAT: Final = 4711


class Branch(NamedTuple):
    """A transaction that may be prepared, and what its manager has decided."""

    xid: XATransactionId
    sent: list[tuple[str, int]]
    commits: bool


class XaSender:
    """Sends in transactions of two phases until the soak ends."""

    def __init__(self, links: Links, flow: Flow, numbers: Numbers, chance: random.Random) -> None:
        self.links = links
        self.log = links.log
        self.flow = flow
        self.numbers = numbers
        self.chance = chance
        self._branches = itertools.count(1)
        self._open: dict[bytes, Branch] = {}

    async def run(self) -> None:
        """Send; at the end nothing is left prepared."""
        while self._open or not self.links.finishing.is_set():
            client = RawClient(create_transport(self.links.url))
            try:
                await client.open()
                await self._recover(client)
                while not self.links.finishing.is_set():
                    await self._transaction(client)
                    with anyio.move_on_after(self.chance.expovariate(self.flow.rate / 4)):
                        await self.links.finishing.wait()
            except JMSException as error:
                self.log.write("failed", "xa", type(error).__name__)
                with anyio.move_on_after(0.3):
                    await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await client.cut()

    async def _transaction(self, client: RawClient) -> None:
        number = next(self._branches)
        xid = XATransactionId(_FORMAT, f"soak-{number}".encode(), b"1")
        sent = [self.numbers.take() for _ in range(self.chance.randint(1, 6))]
        branch = Branch(xid, sent, self.chance.random() > 0.15)
        for name, each in sent:
            self.log.write("try", name, each)
        self.log.write("batch", sent[0][0], sent[0][1], sent[-1][1])
        await client.transaction(TransactionType.BEGIN, xid)
        producer = await client.producer()
        for name, each in sent:
            body = body_of(self.flow, self.chance)
            text = client.text(producer, destination_of(self.flow.destination), "", xid)
            message = ActiveMQBytesMessage(
                producer,
                text.destination,
                xid,
                message_id=text.message_id,
                persistent=True,
                timestamp=text.timestamp,
                content=body,
            )
            message.marshalled_properties = encode_map(
                {"soak_producer": name, "soak_number": each, "soak_crc": checksum_of(body)}
            )
            await client.request(message)
        await client.remove(producer)
        await client.transaction(TransactionType.END, xid)
        assert xid.global_transaction_id is not None
        self._open[xid.global_transaction_id] = branch
        await client.transaction(TransactionType.PREPARE, xid)
        await self._complete(client, branch)

    async def _complete(self, client: RawClient, branch: Branch) -> None:
        if not branch.commits:
            for name, number in branch.sent:
                self.log.write("never", name, number)
        kind = TransactionType.COMMIT_TWO_PHASE if branch.commits else TransactionType.ROLLBACK
        await client.transaction(kind, branch.xid)
        if branch.commits:
            for name, number in branch.sent:
                self.log.write("ok", name, number)
        assert branch.xid.global_transaction_id is not None
        del self._open[branch.xid.global_transaction_id]

    async def _recover(self, client: RawClient) -> None:
        """Complete prepared branches; missing ones were completed, or never prepared.

        That is certain at the end only: the broker may still be preparing for a lost connection.
        """
        answer = await client.transaction(TransactionType.RECOVER, None)
        assert isinstance(answer, DataArrayResponse)
        for found in answer.data or []:
            assert isinstance(found, XATransactionId)
            branch = self._open.get(found.global_transaction_id or b"")
            if branch is not None:
                await self._complete(client, branch)
        if self.links.finishing.is_set():
            self._open.clear()
