"""The options of the factory: names, defaults, errors."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.client.keywords import ClientKeywords
from pyjms.client.options import IGNORED, JMS_OPTIONS, ClientOptions, apply_options
from pyjms.client.policies import PrefetchPolicy
from pyjms.errors import ConfigurationException
from tests.kit.data import SPECIFICATION

NOTES = SPECIFICATION / "activemq-edges.md"
REDELIVERY = SPECIFICATION / "activemq-broker.md"

# Java's spelling of defaults that are written in milliseconds or as -1, in our units
SECONDS = {
    "closeTimeout",
    "connectResponseTimeout",
    "sendTimeout",
    "optimizeAcknowledgeTimeOut",
    "optimizedAckScheduledAckInterval",
    "warnAboutUnstartedConnectionTimeout",
    "initialRedeliveryDelay",
    "redeliveryDelay",
    "maximumRedeliveryDelay",
}
OURS = {"connectResponseTimeout": 30.0}  # activemq-edges N6a
NONE_AT_ZERO = {"sendTimeout", "connectResponseTimeout", "closeTimeout"}


def listed(path: Path, start: str, end: str) -> dict[str, str]:
    """Return the `name=default` pairs of a list in the specification; a bare name has default ""."""
    text = path.read_text(encoding="utf-8")
    text = text[text.index(start) + len(start) :]
    text = re.sub(r"\([^)]*\)|<a id=[^>]*></a>", "", text[: text.index(end)])
    return {
        part.strip().partition("=")[0]: part.strip().partition("=")[2].rstrip(".")
        for part in re.split(r",\s", text.replace("\n", " "))
        if part.strip()
    }


def expected(name: str, text: str) -> object:
    if name in SECONDS:
        number = int(text)
        if number < 0 or (number == 0 and name in NONE_AT_ZERO):
            return None
        return number / 1000
    return json.loads(text) if text else None


@pytest.mark.fact("activemq-edges N0")
def test_every_client_option_of_activemq_is_known_with_its_default() -> None:
    options = listed(NOTES, "`jms.<name>=<default>`: ", "`jms.prefetchPolicy.`")
    assert len(options) == 42
    defaults = ClientOptions()
    for name, text in options.items():
        if name in IGNORED or name in {"userName", "password"}:
            continue
        path, _ = JMS_OPTIONS[name]
        default = OURS.get(name, expected(name, text))
        assert getattr(defaults, path) == default, name
    assert options.keys() <= JMS_OPTIONS.keys() | IGNORED.keys()


def test_every_prefetch_option_is_known_with_its_default() -> None:
    options = listed(NOTES, "`jms.prefetchPolicy.`: ", " `jms.redeliveryPolicy.`")
    policy = PrefetchPolicy()
    for name, text in options.items():
        path, _ = JMS_OPTIONS[f"prefetchPolicy.{name}"]
        if name != "all":
            assert getattr(policy, path.partition(".")[2]) == int(text), name


@pytest.mark.fact("activemq-broker R0")
def test_every_redelivery_option_is_known_with_its_default_and_can_be_set() -> None:
    options = listed(REDELIVERY, "### 7.3 Client redelivery policy", "\n- **R0**")
    assert len(options) == 9
    policy = ClientOptions().redelivery_policy_map.default_entry
    for name, text in options.items():
        path, _ = JMS_OPTIONS[f"redeliveryPolicy.{name}"]
        assert getattr(policy, path.partition(".")[2]) == expected(name, text), name
    factory = ConnectionFactory(
        "mock://x?jms.redeliveryPolicy.maximumRedeliveries=3"
        "&jms.redeliveryPolicy.initialRedeliveryDelay=250"
        "&jms.redeliveryPolicy.redeliveryDelay=500"
        "&jms.redeliveryPolicy.useExponentialBackOff=true"
        "&jms.redeliveryPolicy.backOffMultiplier=2.5"
        "&jms.redeliveryPolicy.maximumRedeliveryDelay=4000"
        "&jms.redeliveryPolicy.useCollisionAvoidance=true"
        "&jms.redeliveryPolicy.collisionAvoidancePercent=20"
        "&jms.redeliveryPolicy.preDispatchCheck=false"
    )
    assert str(factory.redelivery_policy) == (
        "RedeliveryPolicy {destination = null, collisionAvoidanceFactor = 0.2,"
        " maximumRedeliveries = 3, maximumRedeliveryDelay = 4000, initialRedeliveryDelay = 250,"
        " useCollisionAvoidance = true, useExponentialBackOff = true, backOffMultiplier = 2.5,"
        " redeliveryDelay = 500, preDispatchCheck = false}"
    )


def test_keywords_and_options_are_the_same_names_and_types() -> None:
    assert get_type_hints(ClientKeywords) == get_type_hints(ClientOptions)
    assert {f.name for f in fields(ClientOptions)} == ClientKeywords.__annotations__.keys()


def test_options_come_from_the_url_and_keywords_win() -> None:
    factory = ConnectionFactory(
        "mock://x?jms.sendTimeout=500&jms.clientID=url&jms.useAsyncSend=true"
        "&jms.prefetchPolicy.all=7&jms.userName=ann&jms.password=s3cret",
        client_id="keyword",
        close_timeout=1.5,
    )
    options = factory.options
    assert (options.send_timeout, options.use_async_send, options.close_timeout) == (0.5, True, 1.5)
    assert options.client_id == "keyword"
    assert factory.prefetch_policy.queue_prefetch == 7
    assert factory.prefetch_policy.optimize_durable_topic_prefetch == 7
    assert (factory.user_name, factory.password) == ("ann", "s3cret")
    assert "s3cret" not in repr(factory)
    with pytest.raises(TypeError, match="client_ID"):
        ConnectionFactory("mock://x", client_ID="x")  # type: ignore[call-arg]


@pytest.mark.fact("activemq-edges N1")
def test_an_unknown_option_is_named_with_the_nearest() -> None:
    with pytest.raises(
        ConfigurationException,
        match=re.escape(
            "There are 1 jms options that couldn't be set on the ConnectionFactory. Check the"
            " options are spelled correctly. Unknown parameters=[{alwaysSyncsend=1}]. This"
            " connection factory cannot be started."
        ),
    ) as refusal:
        ConnectionFactory("mock://x?jms.sendTimeout=1&jms.alwaysSyncsend=1")
    assert "did you mean 'alwaysSyncSend'?" in str(refusal.value)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("jms.prefech=3", "did you mean 'prefetchPolicy.all'?"),
        ("jms.maximumRedeliverys=3", "did you mean 'redeliveryPolicy.maximumRedeliveries'?"),
        ("jms.xyz=1&jms.useAsyncSned=true", "did you mean 'useAsyncSend' instead of useAsyncSned?"),
        (
            "jms.clientId=a&jms.prefech=1",
            (
                "did you mean 'clientID' instead of clientId?; "
                "did you mean 'prefetchPolicy.all' instead of prefech?"
            ),
        ),
    ],
)
def test_each_misspelt_option_is_named_with_the_nearest(given: str, hint: str) -> None:
    with pytest.raises(ConfigurationException) as refusal:
        ConnectionFactory(f"mock://x?{given}")
    assert refusal.value.hint == hint


def test_a_bad_value_is_named_and_a_password_is_not_shown() -> None:
    with pytest.raises(ConfigurationException, match="Invalid value 'soon' of the option"):
        ConnectionFactory("mock://x?jms.sendTimeout=soon")
    with pytest.raises(ConfigurationException) as refusal:
        ConnectionFactory("mock://x?jms.passwort=s3cret")
    assert "s3cret" not in str(refusal.value)


def test_options_without_a_meaning_here_are_accepted_with_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "pyjms.client"):
        apply_options(
            {"useDedicatedTaskRunner": "true", "trustAllPackages": "true"}, ClientOptions()
        )
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    text = record.getMessage()
    assert (
        "trustAllPackages (serialized Java objects are passed as bytes, and never deserialized), useDedicatedTaskRunner ("
        in text
    )


@pytest.mark.parametrize(
    ("name", "value", "error", "words"),
    [
        ("always_sync_send", "false", TypeError, "must be bool, not str"),
        ("use_compression", None, TypeError, "must be bool, not NoneType"),
        ("audit_depth", True, TypeError, "must be int, not bool"),
        ("producer_window_size", "1024", TypeError, "must be int, not str"),
        ("client_id", 7, TypeError, "must be str or None, not int"),
        ("prefetch_policy", 10, TypeError, "must be PrefetchPolicy, not int"),
        ("redelivery_policy_map", {}, TypeError, "must be RedeliveryPolicyMap, not dict"),
        ("send_timeout", "5", TypeError, "send_timeout"),
        ("send_timeout", -1.0, ValueError, "send_timeout"),
        ("max_inflated_data_size_ratio", 0, ValueError, "must be 1 or more, not 0"),
    ],
)
async def test_a_keyword_of_a_wrong_type_is_refused(
    name: str, value: Any, error: type[Exception], words: str
) -> None:
    keywords: Any = {name: value}
    with pytest.raises(error, match=words):
        ConnectionFactory("mock://x", **keywords)
    factory = ConnectionFactory("mock://x")
    setattr(factory.options, name, value)
    with pytest.raises(error, match=words):
        await factory.create_connection()


def test_a_keyword_for_brokers_in_java_only_is_logged_as_the_option_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "pyjms.client"):
        ConnectionFactory("mock://x", dispatch_async=False, send_timeout=1.0)
        ConnectionFactory("mock://x?jms.dispatchAsync=false")
    first, second = (record.getMessage() for record in caplog.records)
    assert first == second
    assert "dispatchAsync (it selects a thread of ActiveMQ's broker" in first


@pytest.mark.fact("activemq-broker Q12")
def test_prefetch_sizes_are_cut() -> None:
    policy = PrefetchPolicy()
    assert (policy.queue_prefetch, policy.queue_browser_prefetch) == (1000, 500)
    assert (policy.topic_prefetch, policy.durable_topic_prefetch) == (32767, 100)
    assert policy.optimize_durable_topic_prefetch == 1000
    policy.queue_prefetch = 100_000
    assert policy.queue_prefetch == 32767
