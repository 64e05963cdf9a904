"""Which filter fits a destination best, and what folders are called."""

from __future__ import annotations

import pytest

from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms_broker.store.multi import (
    FilteredKahaDB,
    activemq_name,
    best_filter,
    directory_name,
    likely_destination,
)


@pytest.mark.parametrize(
    ("destination", "wanted"),
    [
        (Queue("orders.eu.new"), "orders.eu.*"),
        (Queue("orders.eu.new.fast"), "orders.>"),
        (Queue("orders.us"), "orders.*"),
        (Queue("orders"), "orders.>"),
        (Queue("orders.us.x"), "orders.>"),
        (Queue("a"), "a,b.>"),
        (Queue("b.c.d"), "a,b.>"),
        (Queue("anything"), None),
        (Topic("orders.us"), None),
        (Topic("news.sport"), "news.*"),
        (Topic("news"), None),
        (Topic("logs"), "logs.>.>"),
        (Topic("logs.a.b"), "logs.>.>"),
    ],
)
def test_the_most_specific_filter_wins(destination: Destination, wanted: str | None) -> None:
    filters = [
        FilteredKahaDB(),
        FilteredKahaDB(queue="orders.>"),
        FilteredKahaDB(queue="orders.*"),
        FilteredKahaDB(queue="orders.eu.*"),
        FilteredKahaDB(queue="a,b.>"),
        FilteredKahaDB(topic="news.*"),
        FilteredKahaDB(topic="logs.>.>"),
    ]
    found = best_filter(filters, destination)
    assert found is not None
    assert (found.queue or found.topic) == wanted
    assert best_filter(reversed(filters), destination) is found


@pytest.mark.fact("activemq-persistence K25")
def test_a_pattern_for_all_queues_is_better_than_everything() -> None:
    everything, queues = FilteredKahaDB(), FilteredKahaDB(queue=">")
    assert best_filter([everything, queues], Queue("a.b")) is queues
    assert best_filter([everything, queues], Topic("a.b")) is everything
    assert best_filter([queues], Topic("a.b")) is None


def test_of_equal_filters_the_first_wins() -> None:
    one, other = FilteredKahaDB(queue="a.*", store_limit=1), FilteredKahaDB(queue="a.*")
    assert best_filter([one, other], Queue("a.b")) is one


def test_a_filter_is_for_queues_or_topics() -> None:
    with pytest.raises(ConfigurationException, match="not both"):
        FilteredKahaDB(queue="a", topic="b")


@pytest.mark.fact("activemq-persistence K25")
def test_folder_names_are_activemq_s() -> None:
    assert FilteredKahaDB(queue="orders.>").directory_name == "queue#3a#2f#2forders.#3e"
    assert FilteredKahaDB(topic="news.*").directory_name == "topic#3a#2f#2fnews.#2a"
    assert FilteredKahaDB().directory_name == "#210"
    assert activemq_name(Queue("a b/\u00e9#")) == "queue#3a#2f#2fa#20b#2f#e9#"
    long = activemq_name(Queue("x" * 100 + "end"))
    assert len(long) == 64 and long.endswith("xend")
    assert likely_destination("topic#3a#2f#2fnews.x") == Topic("news.x")


def test_filters_say_what_they_are() -> None:
    assert str(FilteredKahaDB()) == "everything"
    assert str(FilteredKahaDB(queue="a.>", per_destination=True)) == "queue://a.> (per destination)"


def test_a_separate_destination_has_a_separate_directory() -> None:
    long, other = "a" * 30 + "." + "x" * 70, "b" * 30 + "." + "x" * 70
    names = ["orders", "a:b", "a#3ab", "a#b", "\u00e9", "#e9", long, other, "x" * 5000, "\ud800"]
    found = {directory_name(kind(name)) for name in names for kind in (Queue, Topic)}
    assert len(found) == 2 * len(names)
    assert all(len(name.encode()) <= 65 for name in found)
    assert directory_name(Queue("orders.new")) == activemq_name(Queue("orders.new"))
    assert directory_name(Queue(long)) == "queue#3a#2f#2f" + "a" * 26 + "#0c6b36cbc28b557d6f598c20"
