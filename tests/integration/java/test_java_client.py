"""The Java client with its default settings: our broker answers it as ActiveMQ does.

Each test runs at both brokers and expects the same.
"""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest

from tests.kit.servers.java_client import Java

pytestmark = pytest.mark.activemq

KINDS = ["message", "text", "bytes", "map", "stream", "object"]
SEVEN = ["bad#1", "bad#2*", "bad#3*", "bad#4*", "bad#5*", "bad#6*", "bad#7*"]
LIMIT = "java.lang.Throwable: Delivery[7] exceeds redelivery policy limit:RedeliveryPolicy {"

PROPERTIES = {
    "JMSXGroupID": ["String", "group"],
    "JMSXGroupSeq": ["Integer", "3"],
    # the Java client reads its own modified UTF-8 as UTF-8 here, at ActiveMQ too
    "String": ["String", "grüß dich \ufffd\ufffd \ufffd\ufffd €"],
    "boolean": ["Boolean", "true"],
    "byte": ["Byte", "-128"],
    "double": ["Double", "0.1"],
    "float": ["Float", "1.5"],
    "int": ["Integer", "-2147483648"],
    "long": ["Long", "-9223372036854775808"],
    "null": None,
    "short": ["Short", "-32768"],
}
WORDS = "grüß dich 😀 \0 €"
VALUES = [
    ["Boolean", "true"],
    ["Byte", "127"],
    ["Short", "32767"],
    ["Character", "€"],
    ["Integer", "2147483647"],
    ["Long", "9223372036854775807"],
    ["Float", "1.5"],
    ["Double", "0.1"],
    ["String", WORDS],
    ["bytes", "010203"],
    None,
]
NAMES = "a-boolean b-byte c-short d-char e-int f-long g-float h-double i-String j-bytes k-null"
BODIES = {
    "message": None,
    "text": WORDS,
    "bytes": "01fffffe20acfffffffdfffffffffffffffc3fc000003fb999999999999a"
    "00196772c3bcc39f206469636820eda0bdedb88020c08020e282ac010203",
    "map": dict(zip(NAMES.split(), VALUES, strict=True)) | {"i-String": PROPERTIES["String"]},
    "stream": VALUES,
    "object": ["String", "an object"],
}


def by_kind(messages: list[Any]) -> dict[str, Any]:
    """Persistent and other messages of a queue have no common order at ActiveMQ. (activemq-broker M9)"""
    return {message["correlation"].removeprefix("c-"): message for message in messages}


def check_kinds(found: list[Any], name: str) -> None:
    messages = by_kind(found)
    assert sorted(messages) == sorted(KINDS)
    for kind, message in messages.items():
        replies = "topic://replies" if kind == "text" else "queue://replies"
        assert message.pop("id").startswith("ID:")
        assert message == {
            "body": [kind, BODIES[kind]],
            "properties": PROPERTIES,
            "correlation": f"c-{kind}",
            "type": f"type-{kind}",
            "replyTo": replies,
            "destination": f"queue://{name}",
            "original": None,
            "priority": 7,
            "persistent": kind != "bytes",
            "lives": 600000,
            "redelivered": False,
        }


WIRE_OPTIONS = [
    "",
    "jms.useCompression=true",
    *(
        f"wireFormat.tightEncodingEnabled={tight}&wireFormat.cacheEnabled={cache}"
        for tight in ("true", "false")
        for cache in ("true", "false")
    ),
    "wireFormat.version=9",
    "jms.alwaysSyncSend=true",
    "jms.useAsyncSend=true&jms.producerWindowSize=2000&jms.optimizeAcknowledge=true",
    "jms.dispatchAsync=false&jms.watchTopicAdvisories=false",
    "wireFormat.stackTraceEnabled=false&wireFormat.tcpNoDelayEnabled=false",
]


@pytest.mark.parametrize("options", WIRE_OPTIONS)
def test_every_kind_of_message_with_all_its_headers_and_properties(
    java: Java, name: str, options: str
) -> None:
    check_kinds(java("kinds", name, options=options), name)


def test_empty_bodies(java: Java, name: str) -> None:
    bodies = [message["body"] for message in java("empty", name)]
    assert bodies == [
        ["text", None],
        ["text", ""],
        ["bytes", ""],
        ["map", {}],
        ["stream", []],
        ["object", None],
    ]


@pytest.mark.parametrize("options", ["", "jms.useCompression=true"])
def test_a_large_message(java: Java, name: str, options: str) -> None:
    assert java("large", name, 3_000_000, options=options) is True


def test_commit(java: Java, name: str) -> None:
    assert java("commit", name) == {
        "before": None,
        "after": ["1#1", "2#1", "3#1"],
        "taken": ["4#1", "5#1"],
        "left": [],
    }


def test_rolled_back_sends_are_never_seen(java: Java, name: str) -> None:
    assert java("send-rollback", name) == ["once#1"]


@pytest.mark.parametrize("scenario", ["rollback", "listener-throws", "spring-failing"])
def test_what_fails_seven_times_is_a_dead_letter(java: Java, name: str, scenario: str) -> None:
    found = java(scenario, name)
    assert found["deliveries"] == SEVEN
    dead = found["dead"]
    cause = dead["properties"]["dlqDeliveryFailureCause"][1]
    assert cause.startswith(LIMIT)
    boom = "java.lang.IllegalArgumentException: boom"
    assert cause.endswith(f", cause:{boom if scenario == 'listener-throws' else 'null'}")
    assert dead["properties"]["originalExpiration"] == ["Long", "0"]
    assert (dead["destination"], dead["original"]) == ("queue://ActiveMQ.DLQ", f"queue://{name}")
    assert (dead["body"], dead["redelivered"], dead["lives"]) == (["text", "bad"], False, 0)
    assert found.get("left", []) == []


def test_closing_a_session_rolls_back_and_counts_what_was_received(java: Java, name: str) -> None:
    assert java("close-in-transaction", name) == {"first": ["1#1"], "left": ["1#2*", "2#1"]}


def test_client_acknowledges_what_the_session_consumed(java: Java, name: str) -> None:
    assert java("client-ack", name) == {"third": ["3#1"], "left": ["3#2*", "4#1"]}


def test_recover(java: Java, name: str) -> None:
    assert java("recover", name) == {"first": ["1#1", "2#1"], "again": ["1#2*", "2#2*", "3#1"]}


def test_individual_acknowledgement(java: Java, name: str) -> None:
    assert java("individual-ack", name) == ["1#2*", "3#2*"]


def test_dups_ok(java: Java, name: str) -> None:
    assert java("dups-ok", name) == {"queue": 19, "topic": 19, "left": []}


def test_prefetch_zero_pulls(java: Java, name: str) -> None:
    assert java("pull", name) == [None, None, "1", "2", "3", "late"]


def test_prefetch_one_passes_over_a_consumer_that_keeps_its_message(java: Java, name: str) -> None:
    assert java("prefetch-one", name) == ["2#1", "3#1", "4#1", "1#1"]


def test_a_thousand_messages_in_order(java: Java, name: str) -> None:
    found = java("bulk", name, 1000)
    assert (found["received"], found["ordered"]) == (1000, True)
    print(f"{found['rate']} messages a second")


def test_idle_connections_are_kept_alive(java: Java, name: str) -> None:
    options = "wireFormat.maxInactivityDuration=300&wireFormat.maxInactivityDurationInitalDelay=100"
    assert java("idle", name, 1000, options=options) == [None, "still there"]


def test_request_and_reply_through_temporary_queues(java: Java, name: str) -> None:
    assert java("request-reply", name) == [["re: 1", True], ["re: 2", True], ["re: 3", True]]


def test_a_deleted_temporary_queue_does_not_exist_for_others(java: Java) -> None:
    assert java("deleted-temporary") == [
        "there",
        "InvalidDestinationException: Cannot use a Temporary destination from another Connection",
        "DestinationDoesNotExistException: temp-queue://NAME",
    ]


def test_virtual_topic(java: Java, name: str) -> None:
    found = java("virtual-topic", name)
    assert found["first"]["destination"] == f"queue://Consumer.A.VirtualTopic.{name}"
    assert found["first"]["original"] == f"topic://VirtualTopic.{name}"
    assert (found["a"], found["b"], found["plain"]) == (["2"], ["1", "2"], ["1", "2"])


def test_selectors(java: Java, name: str) -> None:
    rest = ["0#1", "3#1", "5#1", "6#1"]
    assert java("selectors", name) == [["2", "4"], ["9"], ["1"], ["7", "8"], None, rest]


def test_a_bad_selector_is_refused(java: Java, name: str) -> None:
    with pytest.raises(Exception, match="InvalidSelectorException: a = = b"):
        java("bad-selector", name, "a = = b")


def test_browser(java: Java, name: str) -> None:
    found = java("browse", name)
    assert found["all"] == ["0", "1", "2", "3", "4"]
    assert found["some"] == ["3", "4"]
    assert found["left"] == [f"{i}#1" for i in range(5)]


def test_durable_subscription(java: Java, name: str) -> None:
    live, caught_up, selected, nothing = java("durable", name)
    assert live == ["live"]
    assert sorted(caught_up) == ["closed", "non-persistent", "offline"]
    assert selected == ["matching"]
    assert nothing is None


def test_errors_of_durable_subscriptions(java: Java, name: str) -> None:
    unknown = (
        "InvalidDestinationException: No durable subscription exists for clientID: "
        f"{name} and subscriptionName: unknown"
    )
    assert java("durable-errors", name) == [
        f"JMSException: Durable consumer is in use for client: {name} and subscriptionName: sub",
        "JMSException: Durable consumer is in use",
        unknown,
    ]


def test_a_client_id_can_be_in_use_once(java: Java, name: str) -> None:
    refused = java("same-client-id", name)
    assert re.fullmatch(
        rf"InvalidClientIDException: Broker: \S+ - Client: {name} already connected from tcp:\S+",
        refused,
    )


def test_priorities_do_not_count_by_default(java: Java, name: str) -> None:
    assert java("priorities", name) == ["p1", "p9", "p4", "p0"]


def test_expired_messages_are_dead_letters(java: Java, name: str) -> None:
    found = java("expiry", name)
    assert found["found"] == "long"
    kind, expiration = found["dead"]["properties"]["originalExpiration"]
    assert kind == "Long"
    assert found["dead"]["properties"]["dlqDeliveryFailureCause"] == [
        "String",
        f"java.lang.Throwable: Message Expired. Expiration:{expiration}",
    ]
    assert found["dead"]["lives"] == 0


def test_no_local(java: Java, name: str) -> None:
    assert java("no-local", name) == ["theirs"]


def test_composite_destinations(java: Java, name: str) -> None:
    found = java("composite", name)
    assert found["a"]["destination"] == f"queue://{name}.a"
    assert found["a"]["original"] == f"{name}.a,{name}.b,topic://{name}.t"
    assert (found["b"], found["t"], found["both"]) == (["x"], ["x"], ["c", "d"])


def test_wildcard_consumers(java: Java, name: str) -> None:
    queues = [f"queue://{name}", f"queue://{name}.a", f"queue://{name}.a.b"]
    assert java("wildcards", name) == {"queues": queues, "topics": ["yes"]}


def test_message_groups(java: Java, name: str) -> None:
    assert java("groups", name) == [["0!", "2", "4", "6"], ["1!", "3", "5", "7"]]


def test_exclusive_consumers(java: Java, name: str) -> None:
    assert java("exclusive", name) == [["1", "2", "3"], ["4"]]


def test_advisories_of_consumers_and_destinations(java: Java, name: str) -> None:
    assert java("advisories", name) == {"consumers": [1, 2, 1, 0], "known": True}


def test_xa_sends(java: Java, name: str) -> None:
    found = java("xa", name)
    assert found == {"vote": 0, "listed": True, "gone": True, "empty": 3}
    assert java("deliveries", name, 1) == ["committed#1"]


def test_xa_in_one_phase_and_receiving(java: Java, name: str) -> None:
    java("xa-one-phase", name)
    assert java("xa-receive", name) == ["one phase#1", "one phase#2*"]


def test_xa_errors_have_their_codes(java: Java) -> None:
    nota, rmfail = -4, -7
    assert java("xa-errors") == [nota, nota, rmfail]


def test_a_prepared_branch_outlives_its_connection(java: Java, name: str) -> None:
    assert java("xa-takeover", name) == [True, False]
    assert java("deliveries", name, 1) == ["prepared#1"]


def test_what_a_killed_client_held_goes_to_another(java: Java, name: str) -> None:
    java("send-texts", name, "1", "2")
    command = [*java.command, "hold", java.url, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as holder:
        assert holder.stdout is not None
        assert json.loads(holder.stdout.readline()) == "1#1"
        holder.kill()
    assert java("deliveries", name, 2) == ["1#2*", "2#2*"]


@pytest.mark.parametrize("concurrency", ["1", "3-10"])
def test_spring_container_and_template(java: Java, name: str, concurrency: str) -> None:
    found = java("spring-listen", name, 60, concurrency)
    assert found == {"complete": True, "calls": 60, "distinct": 60, "left": []}


def test_spring_template(java: Java, name: str) -> None:
    assert java("spring-template", name) == ["text", "[1, 2]", {"key": 7}, None]


def test_spring_request_and_reply(java: Java, name: str) -> None:
    assert java("spring-reply", name) == ["re: q0", "re: q1", "re: q2"]
