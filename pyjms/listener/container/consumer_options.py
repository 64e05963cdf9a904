"""Options of a listener's consumers that JMS leaves to the provider: prefetch and redelivery."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Protocol, cast

from pyjms.client.options import MAX_PREFETCH_SIZE, PrefetchPolicy, RedeliveryPolicy
from pyjms.errors import UnsupportedOperationException
from pyjms.jms.api import MessageConsumer
from pyjms.jms.destination import Destination
from pyjms.listener.container.properties import ContainerProperties

__all__ = ["fair_prefetch", "set_redelivery_policy", "with_prefetch"]

_PREFETCH_OPTION: Final = "consumer.prefetchSize"

_FAIR_TOTAL: Final = 100
_FAIR_MINIMUM: Final = 5
_BATCHES_AHEAD: Final = 2


def fair_prefetch(consumers: int) -> int:
    """Return the prefetch of each of up to `consumers` consumers of a queue.

    With a large prefetch, the consumers that exist first would get all the messages; with a
    prefetch of one, each message would cost a round trip.
    """
    return max(_FAIR_MINIMUM, _FAIR_TOTAL // consumers)


def with_prefetch(destination: Destination, properties: ContainerProperties) -> Destination:
    """Return `destination` with the container's prefetch, unless its name sets one itself."""
    size = _prefetch(destination, properties)
    if size is None or destination.is_temporary or _PREFETCH_OPTION in destination.options:
        return destination
    changed = type(destination)(destination.physical_name)
    changed.options = {**destination.options, _PREFETCH_OPTION: str(size)}
    return changed


def _prefetch(destination: Destination, properties: ContainerProperties) -> int | None:
    if isinstance(properties.prefetch, int):
        return properties.prefetch
    size = None
    most = properties.growth_limit
    if properties.prefetch == "auto" and most is not None and destination.is_queue:
        policy = _connections_policy(properties)
        if policy is None or not policy.is_chosen("queue_prefetch"):
            size = fair_prefetch(most)
    if properties.batch_size is None:
        return size
    # the next batch arrives while this one is handled
    least = min(_BATCHES_AHEAD * properties.batch_size, MAX_PREFETCH_SIZE)
    usual = _connections_prefetch(destination, properties) if size is None else size
    return least if usual < least else size


def _connections_prefetch(destination: Destination, properties: ContainerProperties) -> int:
    """Return the prefetch of the connection's policy; 0 if it is not known."""
    policy = _connections_policy(properties)
    if policy is None:
        return 0
    if destination.is_queue:
        return policy.queue_prefetch
    durable = properties.subscription_durable
    return policy.durable_topic_prefetch if durable else policy.topic_prefetch


def _connections_policy(properties: ContainerProperties) -> PrefetchPolicy | None:
    factory = properties.require_connection_factory()
    native = getattr(factory, "target_connection_factory", factory)
    policy = getattr(native, "prefetch_policy", None)
    return policy if isinstance(policy, PrefetchPolicy) else None


class _Redelivering(Protocol):
    redelivery_policy: RedeliveryPolicy


def set_redelivery_policy(consumer: MessageConsumer, properties: ContainerProperties) -> None:
    """Set the container's policy on a consumer of the client.

    Raises:
        UnsupportedOperationException: the consumer has none.
    """
    if not hasattr(consumer, "redelivery_policy"):
        raise UnsupportedOperationException(
            f"A {type(consumer).__name__} has no redelivery policy",
            hint="use the client's ConnectionFactory without a cache for this listener, or set "
            "the policy on that factory",
        )
    target = cast(_Redelivering, consumer)
    policy = properties.redelivery_policy or target.redelivery_policy
    if properties.retry is not None:
        policy = properties.retry.apply(policy)
        if properties.dead_letter is not None and policy.maximum_redeliveries >= 0:
            # one more: on the last redelivery the message is sent there
            policy = replace(policy, maximum_redeliveries=policy.maximum_redeliveries + 1)
    target.redelivery_policy = policy
