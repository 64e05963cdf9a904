"""The clients and the account of a soak notice brokers that break their promises."""

from __future__ import annotations

import copy
import random
from pathlib import Path

import anyio
import pytest

from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId
from pyjms_broker.api import COMPLETED, Broker, BrokerFilter, Completion, ProducerExchange
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import PluginSettings
from tests.kit.soak.account import Account
from tests.kit.soak.clients.links import Links
from tests.kit.soak.clients.readers import read
from tests.kit.soak.clients.senders import Numbers, send
from tests.kit.soak.events import EventLog, read_events
from tests.kit.soak.flows import FLOWS
from tests.kit.waiting import until

MUTATED = 10
"""The number of the send with which something happens; there are more."""


class Mutation(PluginSettings):
    """Does with one send something that a broker must not do: nothing, it twice, or damage it."""

    kind: str

    def install_plugin(self, broker: Broker) -> Broker:
        return MutatedBroker(broker, self.kind)


class MutatedBroker(BrokerFilter):
    def __init__(self, next_broker: Broker, kind: str) -> None:
        super().__init__(next_broker)
        self.kind = kind
        self.sends = 0

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        if "soak" not in str(message.destination):
            return super().send(exchange, message)
        self.sends += 1
        if self.sends == MUTATED:
            if self.kind == "drop":
                return COMPLETED
            if self.kind == "double":
                again = copy.copy(message)
                again.message_id = MessageId(None, message.producer_id, 1 << 40)
                again.raw = None  # the frame as received, with the other id
                super().send(exchange, again)
            elif self.kind == "damage":
                message.content, message.raw = (message.content or b"") + b"!", None
        return super().send(exchange, message)


async def findings_with(kind: str, folder: Path) -> set[str]:
    """Run a sender and a consumer against such a broker; return the rules that were broken."""
    service = BrokerService("mutated", persistent=False, plugins=[Mutation(kind=kind)])
    service.add_connector("tcp://127.0.0.1:0")
    flow = FLOWS[0]
    log = folder / "client"
    links = Links("", EventLog(log))
    numbers = Numbers(f"{flow.name}/test", flow.lanes)
    links.reader_opens("reader")
    async with service, anyio.create_task_group() as group:
        links.url = service.connectors[0].connect_uri.split("?")[0]

        async def consume() -> None:
            async with links.connect("reader", direct=True) as link:
                await read(link, flow.readers[0], random.Random(1))

        group.start_soon(consume)
        await links.wait_for_readers()
        async with (
            links.connect("sender", direct=True) as link,
            anyio.create_task_group() as sender,
        ):
            sender.start_soon(send, link, flow, numbers, random.Random(1))
            await until(lambda: numbers.sent > MUTATED + 5)
            links.finishing.set()
        await links.wait_until_quiet(0.5)
        group.cancel_scope.cancel()
    account = Account(FLOWS)
    account.take(read_events([log]))
    account.close()
    assert account.counts["confirmed"] > MUTATED
    return {finding.rule for finding in account.findings}


@pytest.mark.parametrize(
    ("kind", "rules"),
    [
        ("none", set()),
        ("drop", {"lost"}),
        ("double", {"doubled without JMSRedelivered"}),
        ("damage", {"damaged"}),
    ],
)
async def test_a_broker_that_breaks_its_promises_is_found(
    kind: str, rules: set[str], tmp_path: Path
) -> None:
    assert await findings_with(kind, tmp_path) == rules
