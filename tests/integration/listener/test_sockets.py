"""A container over a real socket, in real time: the broker stops and restarts on its port."""

from __future__ import annotations

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.jms.message import Message, TextMessage
from pyjms.listener.default_container import DefaultMessageListenerContainer
from pyjms.template.template import JmsTemplate
from pyjms_broker.service import BrokerService
from tests.kit.values import present


async def started(url: str) -> BrokerService:
    service = BrokerService("sockets", persistent=False)
    service.add_connector(url, name="openwire")
    await service.start()
    return service


async def test_recovery_over_tcp(caplog: pytest.LogCaptureFixture) -> None:
    heard = {text: anyio.Event() for text in ("before", "after")}

    async def listener(message: Message) -> None:
        assert isinstance(message, TextMessage)
        heard[present(message.text)].set()

    service = await started("tcp://127.0.0.1:0")
    url = service.connect_uri
    container = DefaultMessageListenerContainer(
        ConnectionFactory(url), destination_name="q", message_listener=listener,
        concurrent_consumers=2, session_transacted=True, recovery_interval=0.02,
    )  # fmt: skip
    template = JmsTemplate(ConnectionFactory(url))
    try:
        await container.start()
        await template.convert_and_send("q", "before")
        await heard["before"].wait()
        await service.stop()
        service = await started(url.partition("?")[0])
        await template.convert_and_send("q", "after")
        await heard["after"].wait()
        assert not container.is_recovering
        assert container.scheduled_consumer_count == 2
    finally:
        await container.shutdown(1)
        await service.stop()
    warned = [r for r in caplog.records if "trying to recover" in r.getMessage()]
    assert len(warned) == 1


async def test_a_dead_letter_has_the_handlers_reason_over_tcp() -> None:
    class TooMuch(Exception):
        pass

    def listener(message: Message) -> None:
        raise TooMuch("\N{EURO SIGN} " + "x" * 100_000)

    service = await started("tcp://127.0.0.1:0")
    url = f"{service.connect_uri.partition('?')[0]}?jms.redeliveryPolicy.maximumRedeliveries=0"
    container = DefaultMessageListenerContainer(
        ConnectionFactory(url), destination_name="q", message_listener=listener,
        session_transacted=True, error_handler=lambda _error: None,
    )  # fmt: skip
    template = JmsTemplate(ConnectionFactory(url), receive_timeout=10.0)
    try:
        await container.start()
        await template.convert_and_send("q", "x")
        dead = await template.receive("ActiveMQ.DLQ")
        assert dead is not None
        _, _, cause = str(dead.properties["dlqDeliveryFailureCause"]).partition("}, cause:")
        assert cause.startswith(f"{__name__}.test_a_dead_letter_has_the_handlers_reason_over_tcp.")
        assert "TooMuch: \N{EURO SIGN} xxx" in cause
        assert cause.endswith("x...")
        assert len(cause) < 2300
    finally:
        await container.shutdown(1)
        await service.stop()
