"""What the user of a bridge must be allowed to do, as docs/networks.md says."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.jms.destination import Queue
from pyjms_broker.settings.plugins.authorization import AuthorizationSettings
from tests.kit.networks import Network, forwarded
from tests.kit.security import simple, user
from tests.kit.waiting import until

ORDERS = Queue("orders")


def plugins(**rights: str) -> list[Any]:
    """Users, the first of whom may do everything, and what the bridge's may do with `orders`."""
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


@pytest.mark.parametrize(
    ("here", "there", "logged"),
    [
        ({}, {"write": "bridges"}, "cannot forward queue://orders"),
        ({"read": "bridges", "admin": "bridges"}, {}, "it is tried again"),
    ],
)
async def test_a_bridge_without_them(
    network: Network, caplog: Any, here: dict[str, str], there: dict[str, str], logged: str
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
