"""The redelivery policy and the prefetch policy, as in ActiveMQ. Durations are seconds.

(activemq-broker R0 to R9, Q12; `jms.redeliveryPolicy.*`, `jms.prefetchPolicy.*`)
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final
from urllib.parse import urlsplit

from pyjms.errors import UnsupportedOperationException
from pyjms.jms.destination import Destination, name_matches
from pyjms.jms.redelivery import next_delay
from pyjms.runtime.clock import check_seconds
from pyjms.runtime.keywords import constructor_names_keywords

NO_MAXIMUM_REDELIVERIES = -1
_MOST_STEPS: Final = 64
"""After as many redeliveries a back-off does not grow any more: it would be infinite."""


@constructor_names_keywords
@dataclass
class RedeliveryPolicy:
    """The delays before redeliveries of a message that was rolled back, and their maximum number.

    Consumers share the policy: a change takes effect at once. ActiveMQ: RedeliveryPolicy.

    Attributes:
        maximum_redeliveries: -1: no maximum; 0: a single delivery, then a dead letter.
        initial_redelivery_delay: seconds before the first redelivery.
        redelivery_delay: seconds before each later redelivery, unless the back-off is exponential.
        maximum_redelivery_delay: the longest delay in seconds; None: no limit.
        use_exponential_back_off: multiply the delay by `back_off_multiplier` each time.
        back_off_multiplier: the factor of exponential back-off.
        use_collision_avoidance: vary each delay at random.
        collision_avoidance_percent: the largest variation of a delay, in percent.
        pre_dispatch_check: in transacted sessions, refuse messages whose redelivery counter
            exceeds the maximum on arrival.
        destination: the destination, if the policy is an entry of a RedeliveryPolicyMap.

    Raises:
        TypeError: a delay is not a number.
        ValueError: a delay is not finite, or negative.
    """

    maximum_redeliveries: int = 6
    initial_redelivery_delay: float = 1.0
    redelivery_delay: float = 1.0
    maximum_redelivery_delay: float | None = None
    use_exponential_back_off: bool = False
    back_off_multiplier: float = 5.0
    use_collision_avoidance: bool = False
    collision_avoidance_percent: int = 15
    pre_dispatch_check: bool = True
    destination: Destination | None = None

    def __post_init__(self) -> None:
        for name in ("initial_redelivery_delay", "redelivery_delay"):
            check_seconds(name, getattr(self, name))
        if self.maximum_redelivery_delay is not None:
            check_seconds("maximum_redelivery_delay", self.maximum_redelivery_delay, least=None)

    def next_delay(self, previous: float | None) -> float:
        """Return the seconds before the next redelivery; `previous`: the last delay, or None."""
        return next_delay(self, previous, self.maximum_redelivery_delay)

    def delay_before(self, redelivery: int) -> float:
        """Return the seconds before a message's redelivery of this number, from 1.

        Other messages do not count, whereas `next_delay` continues a series of the consumer.
        """
        delay, longest = self.initial_redelivery_delay, self.maximum_redelivery_delay
        if redelivery > 1:
            delay = self.redelivery_delay
            if self.use_exponential_back_off and self.back_off_multiplier > 1:
                first = self.initial_redelivery_delay
                steps = min(redelivery - 1, _MOST_STEPS)
                delay = first * self.back_off_multiplier**steps if first > 0 else delay
                delay = delay if longest is None else min(delay, longest)
        if self.use_collision_avoidance:
            share = self.collision_avoidance_percent / 100
            delay *= 1 + random.uniform(-share, share)  # noqa: S311 - spreads load, no secret
        return delay

    def total_delay(self) -> float:
        """Return the seconds that all redeliveries of a message take, without random variation.

        Infinite if there is no maximum.
        """
        if self.maximum_redeliveries == NO_MAXIMUM_REDELIVERIES:
            return math.inf
        plain = replace(self, use_collision_avoidance=False)
        counted = min(self.maximum_redeliveries, _MOST_STEPS)
        total = sum(plain.delay_before(number) for number in range(1, counted + 1))
        more = self.maximum_redeliveries - counted
        return total + more * plain.delay_before(counted + 1)  # all of which are equal

    def is_exceeded(self, redeliveries: int) -> bool:
        """Return whether a message that was redelivered this often becomes a dead letter."""
        maximum = self.maximum_redeliveries
        return maximum != NO_MAXIMUM_REDELIVERIES and redeliveries > maximum

    def __str__(self) -> str:
        """Return ActiveMQ's text, which appears in `dlqDeliveryFailureCause`; milliseconds."""
        longest = self.maximum_redelivery_delay
        values = {
            "destination": "null" if self.destination is None else self.destination,
            "collisionAvoidanceFactor": self.collision_avoidance_percent / 100,
            "maximumRedeliveries": self.maximum_redeliveries,
            "maximumRedeliveryDelay": -1 if longest is None else round(longest * 1000),
            "initialRedeliveryDelay": round(self.initial_redelivery_delay * 1000),
            "useCollisionAvoidance": str(self.use_collision_avoidance).lower(),
            "useExponentialBackOff": str(self.use_exponential_back_off).lower(),
            "backOffMultiplier": float(self.back_off_multiplier),
            "redeliveryDelay": round(self.redelivery_delay * 1000),
            "preDispatchCheck": str(self.pre_dispatch_check).lower(),
        }
        inner = ", ".join(f"{name} = {value}" for name, value in values.items())
        return f"RedeliveryPolicy {{{inner}}}"


@dataclass
class RedeliveryPolicyMap:
    """Redelivery policies by destination; the most specific entry applies, or else the default.

    (activemq-broker R7)
    """

    default_entry: RedeliveryPolicy = field(default_factory=RedeliveryPolicy)
    entries: dict[Destination, RedeliveryPolicy] = field(default_factory=dict)

    def put(self, destination: Destination, policy: RedeliveryPolicy) -> None:
        """Use `policy` for `destination`, which may contain wildcards."""
        policy.destination = destination
        self.entries[destination] = policy

    def entry_for(self, destination: Destination) -> RedeliveryPolicy:
        """Return the policy of a destination without wildcards."""
        exact = self.entries.get(destination)
        if exact is not None:
            return exact
        found = [
            (_specificity(pattern), policy)
            for pattern, policy in self.entries.items()
            if pattern.is_queue == destination.is_queue
            and name_matches(pattern.physical_name, destination.physical_name)
        ]
        return max(found, key=lambda entry: entry[0])[1] if found else self.default_entry


def _specificity(pattern: Destination) -> tuple[int, ...]:
    return tuple(_weights(pattern.physical_name))


def _weights(name: str) -> Iterator[int]:
    for part in name.split("."):
        yield {"*": 1, ">": 0}.get(part, 2)


MAX_PREFETCH_SIZE: Final = 32767


@dataclass
class PrefetchPolicy:
    """How many messages are dispatched to a consumer ahead of their acknowledgements.

    Sizes above 32767 are reduced to that. With 0 each `receive` pulls one message. ActiveMQ:
    ActiveMQPrefetchPolicy.

    Attributes:
        queue_prefetch: for consumers of queues.
        queue_browser_prefetch: for browsers.
        topic_prefetch: for consumers of topics.
        durable_topic_prefetch: for durable subscribers.
        optimize_durable_topic_prefetch: for durable subscribers of AUTO sessions, while
            `optimized_message_dispatch` is on.
        maximum_pending_message_limit: how many messages the broker keeps for a slow consumer of
            a topic, beyond the prefetch; 0: the broker's own limit.
    """

    queue_prefetch: int = 1000
    queue_browser_prefetch: int = 500
    topic_prefetch: int = MAX_PREFETCH_SIZE
    durable_topic_prefetch: int = 100
    optimize_durable_topic_prefetch: int = 1000
    maximum_pending_message_limit: int = 0

    def __post_init__(self) -> None:
        self._chosen = {f.name for f in fields(self) if getattr(self, f.name) != f.default}

    def is_chosen(self, name: str) -> bool:
        """Return whether somebody has set this attribute, and be it to its default."""
        return name in self._chosen

    def set_all(self, size: int) -> None:
        """Set all prefetch sizes (`jms.prefetchPolicy.all`)."""
        self.queue_prefetch = self.queue_browser_prefetch = self.topic_prefetch = size
        self.durable_topic_prefetch = self.optimize_durable_topic_prefetch = size

    def __setattr__(self, name: str, value: Any) -> None:
        if name.endswith("prefetch"):
            value = min(value, MAX_PREFETCH_SIZE)
        if hasattr(self, "_chosen"):
            self._chosen.add(name)
        super().__setattr__(name, value)


_FTP: Final = (
    "FTP sends passwords and bodies in clear text, and few firewalls admit its data connections"
)
_REFUSED: Final = {"ftp": _FTP, "ftps": "pyjms has no dependency that supports FTPS"}


@dataclass
class BlobTransferPolicy:
    """How the bodies of blob messages are transferred. ActiveMQ: BlobTransferPolicy."""

    upload_url: str | None = None
    """The directory (file:, http: or https: URL) to upload to; None: `broker_upload_url`."""
    broker_upload_url: str | None = None
    """Like `upload_url`, used if `upload_url` is None."""
    default_upload_url: str = "http://localhost:8080/uploads/"
    """Like `upload_url`, used if the other two are None."""
    buffer_size: int = 131072
    """Bytes that are read and written at a time."""

    @property
    def target(self) -> str:
        """The URL of the upload directory."""
        return self.upload_url or self.broker_upload_url or self.default_upload_url


def upload_url(text: str) -> str:
    """Return `text` if it can be an upload URL.

    Raises:
        UnsupportedOperationException: its scheme is supported by ActiveMQ, but not by pyjms.
        ValueError: it has no scheme.
    """
    scheme = urlsplit(text).scheme
    if not scheme:
        raise ValueError("an upload URL begins with file:, http: or https:")
    if scheme in _REFUSED:
        raise UnsupportedOperationException(
            f"Blob messages cannot use {scheme}: URLs: {_REFUSED[scheme]}",
            hint="use an https: server that accepts PUT, or a file: directory that both ends mount",
        )
    return text
