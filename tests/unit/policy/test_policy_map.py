"""Policies: which entry applies, defaults, wildcards."""

from __future__ import annotations

import pytest

from pyjms.jms.destination import Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.policy.wildcard import matches


@pytest.mark.fact("activemq-broker D5")
@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("FOO.>", "FOO", True),
        ("FOO.>", "FOO.A.B", True),
        ("FOO.>", "FOOT", False),
        ("FOO.*", "FOO.A", True),
        ("FOO.*", "FOO", False),
        ("FOO.*", "FOO.A.B", False),
        (">", "anything.at.all", True),
        ("A.*.C", "A.B.C", True),
        ("A.*.C", "A.B.D", False),
        ("A.>.C", "A.B.C", False),
        ("A.>.C", "A.>.C", True),
        ("FOO*", "FOOD", False),
        ("FOO*", "FOO*", True),
        ("*.A.>", "B.A", True),
        ("*.A.>", "B.A.C.D", True),
        ("*.A.>", "B.C", False),
        ("A.>.>", "A", True),
        ("A.>.>", "A.B", True),
        ("A.>.>", "A.B.C.D", True),
        ("A.>.>", "B.A", False),
        (">.>", "A", True),
        (">.>.>", "A.B", True),
        ("A.*.>.>", "A", False),
        ("A.*.>.>", "A.B", True),
        ("A.>.>.C", "A.B.C", False),
    ],
)
def test_wildcards(pattern: str, name: str, expected: bool) -> None:
    assert matches(Queue(pattern), Queue(name)) is expected
    assert not matches(Queue(pattern), Topic(name))


def test_a_composite_matches_what_a_member_matches() -> None:
    composite = Queue("a.*,topic://t,b")
    assert matches(composite, Queue("a.x"))
    assert matches(composite, Queue("b"))
    assert matches(composite, Topic("t"))
    assert not matches(composite, Queue("t"))


@pytest.mark.fact("activemq-broker P1")
def test_which_entry_applies() -> None:
    entry = PolicyEntry
    exact = entry(destination=Queue("A.B.C"))
    star = entry(destination=Queue("A.B.*"))
    early_star = entry(destination=Queue("A.*.C"))
    rest = entry(destination=Queue("A.>"))
    everything = entry(destination=Queue(">"))
    topics = entry(destination=Topic(">"))
    temps = entry(temp_queue=True)
    temp_topics = entry(temp_topic=True)
    default = entry()
    policies = PolicyMap(
        [everything, rest, early_star, star, exact, topics, temps, temp_topics, default]
    )
    for name, expected in (
        ("A.B.C", exact),
        ("A.B.D", star),
        ("A.X.C", early_star),
        ("A.X.D", rest),
        ("A", rest),
        ("X", everything),
    ):
        assert policies.entry_for(Queue(name)) is expected, name
    assert policies.entry_for(Topic("A.B.C")) is topics
    assert policies.entry_for(TemporaryQueue("ID:1")) is temps
    assert policies.entry_for(TemporaryTopic("ID:1")) is temp_topics
    few = PolicyMap([entry(destination=Queue("A"))], default_entry=default)
    assert few.entry_for(Queue("B")) is default
    assert PolicyMap().entry_for(Queue("B")).is_built_in
    newer = entry(destination=Queue("A"))
    few.add(newer)
    assert few.entry_for(Queue("A")) is newer
    assert len(few.entries) == 1
    with pytest.raises(ValueError, match="one default"):
        few.add(entry())


@pytest.mark.fact("activemq-broker P2")
def test_an_entry_changes_the_built_in_settings() -> None:
    ours, none = PolicyEntry(max_page_size=7), PolicyEntry.built_in()
    assert (none.max_producers_to_audit, none.max_queue_audit_depth) == (1024, 2048)
    assert (ours.max_producers_to_audit, ours.max_queue_audit_depth) == (64, 10_000)
    assert (none.max_browse_page_size, ours.max_browse_page_size) == (None, 400)
    assert (none.audits_topic_subscriptions, ours.audits_topic_subscriptions) == (False, True)
    assert (none.max_page_size, ours.max_page_size) == (200, 7)


@pytest.mark.fact(
    "activemq-broker 2.1/queuePrefetch / queueBrowserPrefetch / topicPrefetch / durableTopicPrefetch"
)
def test_prefetches_replace_defaults_only() -> None:
    ours = PolicyEntry(
        queue_prefetch=1, queue_browser_prefetch=2, topic_prefetch=3, durable_topic_prefetch=4
    )
    assert [ours.queue_prefetch_for(n) for n in (1000, 999)] == [1, 999]
    assert [ours.browser_prefetch_for(n) for n in (500, 499)] == [2, 499]
    assert [ours.topic_prefetch_for(n) for n in (32767, 100)] == [3, 100]
    assert [ours.durable_prefetch_for(n) for n in (100, 1000, 50)] == [4, 4, 50]
    plain = PolicyEntry()
    assert plain.queue_prefetch_for(1000) == 1000
    assert plain.browser_prefetch_for(500) == 500
    assert plain.topic_prefetch_for(32767) == 32767
    assert [plain.durable_prefetch_for(n) for n in (100, 1000)] == [100, 1000]


@pytest.mark.fact(
    "activemq-broker 2.1/maxPageSize",
    "activemq-broker 2.1/maxBrowsePageSize",
    "activemq-broker 2.1/prioritizedMessages",
    "activemq-broker 2.1/strictOrderDispatch",
    "activemq-broker 2.1/useConsumerPriority",
    "activemq-broker 2.1/allConsumersExclusiveByDefault",
    "activemq-broker 2.1/dispatchPolicy",
    "activemq-broker 2.1/enableAudit, maxProducersToAudit, maxAuditDepth, maxQueueAuditDepth",
)
@pytest.mark.parametrize(
    ("attribute", "default"),
    [
        ("max_page_size", 200),
        ("max_browse_page_size", 400),
        ("prioritized_messages", False),
        ("strict_order_dispatch", False),
        ("use_consumer_priority", True),
        ("all_consumers_exclusive_by_default", False),
        ("lazy_dispatch", False),
        ("use_prefetch_extension", True),
        ("consumers_before_dispatch_starts", 0),
        ("time_before_dispatch_starts", 0),
        ("dispatch_policy", "simple"),
        ("minimum_message_size", 1024),
        ("enable_audit", True),
        ("max_producers_to_audit", 64),
        ("max_audit_depth", 10_000),
        ("max_queue_audit_depth", 10_000),
    ],
)
def test_defaults(attribute: str, default: int | bool | str) -> None:
    """Their effect is shown in tests/unit/region."""
    assert getattr(PolicyEntry(), attribute) == default
