"""Logins and rights of AMQP clients. (activemq-edges SE4, SE5)"""

from __future__ import annotations

import ssl

import anyio
import pytest

from pyjms.wire.amqp.performatives import (
    ACCEPTED,
    SENDER,
    Attach,
    Detach,
    Properties,
    Source,
    Target,
)
from tests.kit.amqp.client import AmqpBroker, AmqpClient, Sender, StartAmqp, text
from tests.kit.brokers.access_matrix import ADMIN, DESTINATIONS, READ, RIGHTS, ROLES, USERS, WRITE
from tests.kit.tls import CertificateFiles


async def client_of(amqp: AmqpBroker, role: str) -> AmqpClient:
    return await amqp.client(role, (role, "secret"))


async def may_send(client: AmqpClient, address: str, *, anonymous: bool) -> bool:
    if anonymous:
        sender = await client.sender(None)
        return await sender.send(text("x", properties=Properties(to=address))) == ACCEPTED
    attach = Attach("x", 50, SENDER, source=Source(), target=Target(address))
    attach.initial_delivery_count = 0
    answer = await client.attach(attach)
    if answer.target is None:
        error = (await client.receive(Detach)).error
        assert error is not None
        assert error.condition == "amqp:unauthorized-access"
        return False
    return await Sender(client, 50, answer, 1).send(text("x")) == ACCEPTED


@pytest.mark.fact("amqp-connector A61", "amqp-connector A72")
@pytest.mark.parametrize("anonymous", [False, True])
@pytest.mark.parametrize(
    ("address", "needs"),
    [
        ("queue://M.q", {WRITE}),
        ("topic://M.t", {WRITE}),
        ("queue://M.new.{}", {WRITE, ADMIN}),
    ],
)
async def test_who_may_send(
    amqp_broker: StartAmqp, address: str, needs: set[str], anonymous: bool
) -> None:
    async with amqp_broker(plugins=[USERS, RIGHTS], destinations=DESTINATIONS) as amqp:
        for role, rights in ROLES.items():
            client = await client_of(amqp, role)
            allowed = await may_send(client, address.format(role), anonymous=anonymous)
            assert allowed == (needs <= rights), role


@pytest.mark.fact("amqp-connector A61")
@pytest.mark.parametrize(
    ("address", "durable", "needs"),
    [
        ("queue://M.q", 0, {READ}),
        ("topic://M.t", 0, {READ}),
        ("topic://M.t", 2, {READ}),
        ("queue://M.new.{}", 0, {READ, ADMIN}),
    ],
)
async def test_who_may_receive(
    amqp_broker: StartAmqp, address: str, durable: int, needs: set[str]
) -> None:
    async with amqp_broker(plugins=[USERS, RIGHTS], destinations=DESTINATIONS) as amqp:
        for role, rights in ROLES.items():
            client = await client_of(amqp, role)
            receiver = await client.receiver(address.format(role), durable=durable)
            assert (receiver.answer.source is not None) == (needs <= rights), role


async def test_a_client_sends_no_id_of_another_connection(amqp_broker: StartAmqp) -> None:
    async with amqp_broker(plugins=[USERS, RIGHTS], destinations=DESTINATIONS) as amqp:
        one, other = await client_of(amqp, "root"), await client_of(amqp, "publisher")
        receiver = await one.receiver("queue://M.q", credit=1)
        await (await one.sender("queue://M.q")).texts("x")
        properties = (await receiver.next()).message.properties
        assert properties is not None
        sender = await other.sender("queue://M.q")
        assert await sender.send(text("x", properties=properties)) != ACCEPTED
        own = Properties(message_id="mine")
        assert await sender.send(text("x", properties=own)) == ACCEPTED


@pytest.mark.fact("amqp-connector A22", "amqp-connector A27")
async def test_a_certificate_is_a_login(amqp_broker: StartAmqp, files: CertificateFiles) -> None:
    options = f"?ssl.keyStore={files.issue()}&ssl.trustStore={files.trust}&needClientAuth=true"
    async with amqp_broker(options, "amqp+ssl") as amqp:
        context = ssl.create_default_context(cafile=files.trust)
        context.load_cert_chain(files.issue("client.pem"))
        stream = await anyio.connect_tcp(
            "localhost", amqp.port, ssl_context=context, tls_standard_compatible=False
        )
        async with stream:
            client = AmqpClient(stream)
            assert await client.log_in("EXTERNAL", b"") == 0
            assert (await client.open()).container_id == "amqp"


@pytest.mark.fact("amqp-connector A22")
async def test_without_a_certificate_there_is_no_external_login(amqp_broker: StartAmqp) -> None:
    async with amqp_broker() as amqp:
        assert await (await amqp.connect()).log_in("EXTERNAL") == 3
