"""Policies, users and rights on the pages, and the YAML that changes them."""

from __future__ import annotations

import re
from html import unescape
from typing import get_args

import pytest
import yaml

from pyjms.jms.destination import Queue, Topic
from pyjms_broker.policy.dead_letter import SharedDeadLetterStrategy
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.service import BrokerService
from pyjms_broker.settings.policies import (
    DeadLetterSettings,
    EvictionSettings,
    PendingLimitSettings,
    PolicySettings,
    RecoverySettings,
    SlowConsumerSettings,
)
from pyjms_broker.settings.security import AuthorizationSettings
from pyjms_broker.settings.values import types_of
from tests.kit.brokers.security import simple, user
from tests.kit.web.console import Console, console_of

STRATEGIES = {
    "dead_letter_strategy": DeadLetterSettings,
    "pending_message_limit_strategy": PendingLimitSettings,
    "message_eviction_strategy": EvictionSettings,
    "slow_consumer_strategy": SlowConsumerSettings,
    "subscription_recovery_policy": RecoverySettings,
}
NEEDED: dict[str, dict[str, object]] = {
    "unique_property": {"property_name": "symbol"},
    "shared": {"dead_letter_queue": "queue://bad", "expiration": "5s"},
    "individual": {"queue_prefix": "DLQ.", "process_non_persistent": True},
    "abort_slow": {"max_slow_count": 3},
    "fixed_count": {"maximum_size": 7},
    "timed": {"recover_duration": "90s"},
}


def yaml_of(page: str) -> object:
    found = re.search(r'aria-label="YAML">(.*?)</pre>', page, re.DOTALL)
    assert found is not None
    return yaml.safe_load(unescape(found[1]))


async def policy_of(policy: PolicyEntry, destination: Queue | Topic, **change: str) -> object:
    """Return what the page of a destination's policy has as YAML."""
    kind = "topic" if destination.is_topic else "queue"
    service = BrokerService("ruled", persistent=False, policies=PolicyMap([policy]))
    async with service, console_of(service) as console:
        await console.act("create", kind=kind, name=destination.physical_name)
        page = await console.text("policy", kind=kind, name=destination.physical_name, **change)
        assert "orders.&gt;" in page
        return yaml_of(page)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (name, kind)
        for name, union in STRATEGIES.items()
        for kind in types_of(get_args(union)[0])
        if kind != "query_based"  # the name of its query is not known any more
    ],
)
async def test_the_yaml_of_a_policy_makes_the_same_policy(name: str, kind: str) -> None:
    strategy = {"type": kind, **NEEDED.get(kind, {})}
    settings: dict[str, object] = {
        "memory_limit": 1024,
        "expire_messages_period": "5s",
        name: strategy,
    }
    entry = PolicySettings.model_validate({"destination": "orders.>", **settings}).build()
    shown = await policy_of(entry, Queue("orders.eu"))
    if (name, kind) == ("message_eviction_strategy", "oldest"):
        settings.pop(name)  # the default
    assert shown == {"policies": [{"destination": "orders.eu", **settings}]}


def test_the_dead_letter_queue_of_a_shared_strategy_has_an_effect() -> None:
    strategy = {"type": "shared", "dead_letter_queue": "bad"}
    built = PolicySettings.model_validate({"dead_letter_strategy": strategy}).build()
    assert isinstance(built.dead_letter_strategy, SharedDeadLetterStrategy)
    assert built.dead_letter_strategy.dead_letter_queue == Queue("bad")


async def test_the_yaml_of_a_policy_has_the_change() -> None:
    entry = PolicyEntry(destination=Topic("orders.>"), memory_limit=5, lazy_dispatch=True)
    shown = await policy_of(entry, Topic("orders.eu"), attribute="memory_limit", value="64mb")
    name = "topic://orders.eu"
    expected = {"destination": name, "lazy_dispatch": True, "memory_limit": "64mb"}
    assert shown == {"policies": [expected]}


async def test_a_destination_without_a_policy_has_the_built_in_one(console: Console) -> None:
    await console.act("create", kind="queue", name="plain")
    assert "built-in; <a" in await console.text("queue", name="plain")
    assert "No policy is for it" in await console.text("policy", kind="queue", name="plain")
    assert "There are no policies" in await console.text("settings")


async def test_users_and_rights_are_shown_without_passwords() -> None:
    plugins = [
        simple(user("ann", "admins", password="hidden-word"), user("joe", "shop,staff")),
        AuthorizationSettings.model_validate(
            {"entries": [{"destination": "topic://news.>", "read": "shop,staff"}]}
        ),
    ]
    service = BrokerService("secured", persistent=False, plugins=plugins)
    async with service, console_of(service) as console:
        console.client.auth = ("ann", "hidden-word")
        page = unescape(await console.text("settings"))
        assert "hidden-word" not in page
        assert re.search(r"joe</th>\s*<td>shop, staff</td>\s*<td>no</td>", page)
        assert re.search(r"ann</th>\s*<td>admins</td>\s*<td>changes</td>", page)
        assert re.search(r"topic://news.></th><td>shop,staff</td>", page)
        found = [
            yaml.safe_load(each) for each in re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)
        ]
        (joe,) = [each for each in found if "users" in each["plugins"][0]][1:]
        assert joe["plugins"][0]["users"] == [
            {"username": "joe", "password": "${PASSWORD}", "groups": ["shop", "staff"]}
        ]
        assert ">joe<" not in await console.text("settings", filter="admins")


async def test_a_broker_without_users_says_so(console: Console) -> None:
    page = await console.text("settings")
    assert "This broker has no users" in page
    assert "Every user may read, write and create everything" in page
