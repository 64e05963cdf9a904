"""What broker_url could say, and settings that say the same: prefetch, redelivery, failover."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms import ConfigurationException, Queue, Topic, load_settings
from pyjms.app.objects import make_client_factory
from pyjms.settings.broker import ActiveMQSettings

_MASTER = "failover:(tcp://a:1)?timeout=5000"


def broker(tmp_path: Path, *lines: str) -> ActiveMQSettings:
    path = tmp_path / "application.yaml"
    path.write_text("\n  ".join(["activemq:", *lines]), encoding="utf-8")
    return load_settings(path, environ={}).activemq


def test_brokers_and_options_of_failover(tmp_path: Path) -> None:
    found = broker(
        tmp_path,
        "failover: {uris: ['ssl://a:1?ssl.verifyHostName=true', 'ssl://b:2'], timeout: 5s,"
        " priority_uris: ['ssl://b:2'], nested: {keepAlive: 'true'}}",
        "tls: {server_name: broker.example}",
    )
    url = found.effective_broker_url()
    assert url.startswith("failover:(ssl://a:1?ssl.verifyHostName=true&")
    for part in ("timeout=5000", "priorityURIs=ssl://b:2", "nested.keepAlive=true"):
        assert part in url
    assert url.count("broker.example") == 3  # of both, and of what a broker announces
    assert "broker.example" in str(make_client_factory(found).uri)


def test_options_are_added_to_a_url(tmp_path: Path) -> None:
    found = broker(tmp_path, f"broker_url: '{_MASTER}'", "failover: {randomize: false}")
    assert found.effective_broker_url() == "failover:(tcp://a:1)?timeout=5000&randomize=false"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([f"broker_url: '{_MASTER}'", "failover: {timeout: 1s}"], "both have timeout"),
        ([f"broker_url: '{_MASTER}'", "failover: {uris: ['tcp://b:1']}"], "both name brokers"),
        (["broker_url: tcp://a:1", "failover: {timeout: 1s}"], "write failover.uris"),
        (["failover: {timeout: 1s}"], "write failover.uris"),
        (["failover: {uris: [nonsense]}"], "not scheme specified"),
        (["failover: {uris: ['tcp://a:1']}", "tls: {key_file: a}"], "not encrypted"),
        (["redelivery_by_destination: {'topic://': {maximum: 1}}"], "empty"),
        (["redelivery_by_destination: {'tpoic://a': {maximum: 1}}"], "tpoic"),
    ],
)  # fmt: skip
def test_contradictions_are_errors(tmp_path: Path, lines: list[str], reason: str) -> None:
    with pytest.raises(ConfigurationException, match=reason):
        broker(tmp_path, *lines)


def test_redelivery_by_destination_completes_the_default(tmp_path: Path) -> None:
    found = broker(
        tmp_path,
        "broker_url: tcp://a:1?jms.redeliveryPolicy.maximumRedeliveries=4",
        "redelivery: {initial_delay: 3s}",
        "redelivery_by_destination: {orders.>: {delay: 5s}, 'topic://prices': {maximum: 0}}",
    )
    policies = make_client_factory(found).redelivery_policy_map
    for destination, expected in {
        Queue("orders.new"): (4, 3.0, 5.0),
        Topic("prices"): (0, 3.0, 3.0),
        Queue("prices"): (4, 3.0, 3.0),
    }.items():
        policy = policies.entry_for(destination)
        assert expected == (
            policy.maximum_redeliveries, policy.initial_redelivery_delay, policy.redelivery_delay,
        )  # fmt: skip


def test_prefetch_of_all_kinds_or_of_some(tmp_path: Path) -> None:
    url = "broker_url: tcp://a:1?jms.prefetchPolicy.queuePrefetch=3"
    policy = make_client_factory(broker(tmp_path, url, "prefetch: 7")).prefetch_policy
    assert (policy.queue_prefetch, policy.topic_prefetch) == (7, 7)
    policy = make_client_factory(broker(tmp_path, url, "prefetch: {topic: 9}")).prefetch_policy
    assert (policy.queue_prefetch, policy.topic_prefetch) == (3, 9)


def test_bodies_of_blob_messages(tmp_path: Path) -> None:
    url = "broker_url: tcp://a:1?jms.blobTransferPolicy.uploadUrl=https://url/"
    for line, target, size in (
        ("blob_transfer_policy: {buffer_size: 9}", "https://url/", 9),
        ("blob_transfer_policy: {upload_url: https://yaml/}", "https://yaml/", 131072),
    ):
        policy = make_client_factory(broker(tmp_path, url, line)).blob_transfer_policy
        assert (policy.target, policy.buffer_size) == (target, size)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("upload_url: ftp://a/", "cannot use ftp: URLs"),
        ("upload_url: bodies", "begins with file:"),
        ("buffer_size: 0", "greater than or equal to 1"),
    ],
    ids=["ftp", "no-scheme", "no-buffer"],
)
def test_mistakes_in_the_transfer_policy(tmp_path: Path, line: str, reason: str) -> None:
    with pytest.raises(ConfigurationException, match=reason):
        broker(tmp_path, f"blob_transfer_policy: {{{line}}}")


def test_the_delays_of_redelivery_can_be_left_out(tmp_path: Path) -> None:
    found = broker(tmp_path, "redelivery_by_destination: {a: {maximum: 2, initial_delay: 5s}}")
    assert found.without_redelivery_delays().redelivery_by_destination["a"].model_dump(
        exclude_none=True
    ) == {"maximum": 2}


@pytest.mark.parametrize(("text", "expected"), [("-1", None), ("0", 0.0), ("5s", 5.0)])
def test_spring_boots_minus_one_means_forever(
    tmp_path: Path, text: str, expected: float | None
) -> None:
    found = broker(tmp_path, f"pool: {{block_if_full_timeout: {text}}}")
    assert found.pool.options().block_if_full_timeout == expected
    found = broker(tmp_path, "pool: {time_between_expiration_check: -1}")
    assert found.pool.options().time_between_expiration_check == 0
