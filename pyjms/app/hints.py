"""What `pyjms check` points out in listeners that are valid, but may surprise in production."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from pyjms.app.checks import PlannedListener, place_of
from pyjms.client.options import RedeliveryPolicy
from pyjms.jms.destination import parse_destination
from pyjms.listener.concurrency import parse_concurrency

_LONG: Final = 60.0
"""Seconds for which one message may stop a listener without a hint."""


def hints_of(planned: PlannedListener) -> Iterator[str]:
    """Yield the hints on a valid listener."""
    native = _native_factory(planned.factory)
    if native is None or not planned.is_known or planned.consumes_on_receipt:
        return  # another provider's redelivery is not known, or there is none
    if native.options.non_blocking_redelivery or _most_consumers(planned) > 1:
        return
    policy = _redelivery_policy(planned, native)
    seconds = policy.total_delay()
    if seconds > _LONG:
        times = policy.maximum_redeliveries
        yield (
            f"{place_of(planned.endpoint)}Listener {planned.name}: a message that keeps failing "
            "stops its only consumer for "
            f"{_described(seconds)} ({'no maximum of' if times < 0 else times} redeliveries), and "
            "the messages behind it wait: fewer or shorter retries, a dead_letter queue with a "
            "redrive, more concurrency, or activemq.non_blocking_redelivery"
        )


def _native_factory(container_factory: Any) -> Any:
    """Return the client's connection factory; None: it is another provider's."""
    factory = getattr(container_factory, "connection_factory", None)
    native = getattr(factory, "target_connection_factory", factory)
    return native if hasattr(native, "redelivery_policy_map") else None


def _most_consumers(planned: PlannedListener) -> int:
    options = planned.options
    text = planned.endpoint.concurrency
    if text is None and planned.is_durable:
        return 1
    text = text or options.get("concurrency")
    if text is not None:
        return parse_concurrency(text)[1]
    names = ("concurrent_consumers", "max_concurrent_consumers")
    return max(int(options.get(name, 1)) for name in names)


def _redelivery_policy(planned: PlannedListener, native: Any) -> RedeliveryPolicy:
    """Return the policy of the listener's messages, as its container will set it."""
    endpoint = planned.endpoint
    destination = parse_destination(endpoint.destination, planned.kind)
    policy: RedeliveryPolicy = native.redelivery_policy_map.entry_for(destination)
    policy = endpoint.redelivery_policy or planned.options.get("redelivery_policy") or policy
    return policy if endpoint.retry is None else endpoint.retry.apply(policy)


def _described(seconds: float) -> str:
    return "ever" if seconds == math.inf else f"{timedelta(seconds=round(seconds))}"
