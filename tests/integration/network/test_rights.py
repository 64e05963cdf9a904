"""What the user of a bridge must be allowed to do, as docs/networks.md says."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.errors import JMSSecurityException
from pyjms.jms.destination import Queue, TemporaryQueue
from pyjms_broker.settings.security import AuthorizationSettings
from tests.kit.brokers.networks import Network, forwarded
from tests.kit.brokers.security import simple, user
from tests.kit.waiting import until

ORDERS = Queue("orders")


EXISTING = {"destinations": [ORDERS]}


def plugins(**rights: str) -> list[Any]:
    """An administrator, and the bridge's user with its rights on `orders`."""
    everything = {"read": "all", "write": "all", "admin": "all"}
    bridge = {"read": "all", "write": "all", "admin": "all"} | {
        verb: f"all,{group}" for verb, group in rights.items()
    }
    advisories = {"destination": "topic://ActiveMQ.Advisory.>", "read": "all,bridges"}
    entries = [
        {"destination": ">", **everything},
        {"destination": "topic://>", **everything},
        {"destination": "orders", **bridge},
        advisories | {"write": "all,bridges", "admin": "all,bridges"},
    ]
    users = simple(user("joe", "all", "x"), user("bridge", "bridges"))
    return [users, AuthorizationSettings.model_validate({"entries": entries})]


async def test_a_bridge_with_these_rights(network: Network) -> None:
    source = network.broker("a", plugins=plugins(read="bridges", admin="bridges"))
    target = network.broker("b", plugins=plugins(write="bridges", admin="bridges"))
    network.link(source, target, user_name="bridge", password="secret")
    await network.start(target, source)
    sender, receiver = await network.client(source), await network.client(target)
    await receiver.consumer(ORDERS)
    await until(lambda: forwarded(source))
    await sender.send(ORDERS, "x")
    assert (await receiver.message()).broker_path == [source.broker_id]


@pytest.mark.fact("activemq-edges SE35")
@pytest.mark.parametrize("duplex", [False, True])
async def test_replies_come_back_through_a_bridge_and_to_nobody_else(
    network: Network, *, duplex: bool
) -> None:
    """The bridge consumes the other broker's temporary queue here, where it has created it."""
    rights = plugins(read="bridges", write="bridges", admin="bridges")
    users = simple(user("joe", "users", "x"), user("bridge", "bridges"))
    source, target = (network.broker(name, plugins=[users, rights[1]]) for name in ("a", "b"))
    dialing, dialed = (target, source) if duplex else (source, target)
    network.link(dialing, dialed, duplex=duplex, user_name="bridge", password="secret")
    await network.start(dialed, dialing)
    responder, requester = await network.client(source), await network.client(target)
    reply = TemporaryQueue(f"{requester.name}:1")
    await requester.destination(reply)
    await requester.consumer(reply)
    await until(lambda: forwarded(source))
    with pytest.raises(JMSSecurityException, match="not authorized to read from: temp-queue"):
        await responder.consumer(reply)
    await responder.send(reply, "an answer")
    assert (await requester.message()).destination == reply


@pytest.mark.parametrize(
    ("here", "there", "logged"),
    [
        ({}, {"write": "bridges"}, "cannot forward queue://orders"),
        ({"read": "bridges", "admin": "bridges"}, {}, "it is tried again"),
    ],
)
async def test_a_bridge_without_them(
    network: Network,
    caplog: pytest.LogCaptureFixture,
    here: dict[str, str],
    there: dict[str, str],
    logged: str,
) -> None:
    source = network.broker("a", plugins=plugins(**here))
    target = network.broker("b", plugins=plugins(**there))
    network.link(source, target, user_name="bridge", password="secret")
    await network.start(target, source)
    sender, receiver = await network.client(source), await network.client(target)
    await receiver.consumer(ORDERS)
    await sender.send(ORDERS, "x")
    await until(lambda: logged in caplog.text)
    assert "not authorized" in caplog.text
    assert source.region_broker.destinations()[ORDERS].statistics.messages == 1


@pytest.mark.parametrize(
    ("here", "there", "exists", "forwards"),
    [
        ("read", "write", True, True),  # to create is a right for what does not exist yet
        ("read", "write", False, False),
        ("read,admin", "write", False, True),
        ("admin", "write,admin", True, False),
        ("write,admin", "write,admin", True, False),
        ("read,admin", "read,admin", True, False),
        ("", "", True, False),
    ],
)
async def test_each_right_of_a_bridges_user(
    network: Network,
    caplog: pytest.LogCaptureFixture,
    here: str,
    there: str,
    *,
    exists: bool,
    forwards: bool,
) -> None:
    more = EXISTING if exists else {}
    source, target = (
        network.broker(
            name,
            plugins=plugins(**dict.fromkeys(filter(None, rights.split(",")), "bridges")),
            **more,
        )
        for name, rights in (("a", here), ("b", there))
    )
    network.link(source, target, user_name="bridge", password="secret")
    await network.start(target, source)
    sender, receiver = await network.client(source), await network.client(target)
    await receiver.consumer(ORDERS)
    if forwards:
        await until(lambda: forwarded(source))
    else:
        await until(lambda: "not authorized" in caplog.text or forwarded(source))
    await sender.send(ORDERS, "x")
    if forwards:
        assert (await receiver.message()).broker_path == [source.broker_id]
    else:
        await until(lambda: "not authorized" in caplog.text)
        assert source.region_broker.destinations()[ORDERS].statistics.messages == 1
