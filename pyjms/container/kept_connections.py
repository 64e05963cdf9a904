"""The connection factories of an application that keep connections open, or wrap another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyjms.client.options import RedeliveryPolicy
from pyjms.connection.pool.factory import PooledConnectionFactory
from pyjms.container.by_broker import ByBroker

__all__ = ["close_all", "redelivery_policy_of", "start_pools"]


def _kept_factories(container: Any) -> list[Any]:
    """Return the connection factories of the templates, of further brokers those in use."""
    by_broker = container.connection_factories()
    kept = by_broker.created if isinstance(by_broker, ByBroker) else by_broker.values()
    return [*kept, container.connection_factory()]


def redelivery_policy_of(container_factory: Any) -> RedeliveryPolicy:
    """Return the default policy of the connections of a container factory, pooled or not."""
    factory = container_factory.connection_factory
    native = getattr(factory, "target_connection_factory", factory)
    policy: RedeliveryPolicy = getattr(native, "redelivery_policy", RedeliveryPolicy())
    return policy


async def start_pools(container: Any) -> None:
    """Allow the use of the pools, and open their first connections; failures are logged."""
    for factory in _kept_factories(container):
        if isinstance(factory, PooledConnectionFactory):
            await factory.start()


async def close_all(container: Any, further: Iterable[Any]) -> None:
    """Close the connections that the container's connection factories and `further` ones keep."""
    for factory in (*further, *_kept_factories(container)):
        destroy = getattr(factory, "destroy", None)
        if destroy is not None:
            await destroy()
