"""The delays of redeliveries after a rollback, for clients and for the broker's plug-in.

Source: ActiveMQ RedeliveryPolicy.getNextRedeliveryDelay.
"""

from __future__ import annotations

import random
from typing import Protocol


class BackOff(Protocol):
    """The attributes of a redelivery policy that determine the delays; times are in seconds."""

    @property
    def initial_redelivery_delay(self) -> float: ...

    @property
    def redelivery_delay(self) -> float: ...

    @property
    def use_exponential_back_off(self) -> bool: ...

    @property
    def back_off_multiplier(self) -> float: ...

    @property
    def use_collision_avoidance(self) -> bool: ...

    @property
    def collision_avoidance_percent(self) -> int: ...


def next_delay(policy: BackOff, previous: float | None, longest: float | None) -> float:
    """Return the seconds before the next redelivery.

    Args:
        policy: the redelivery policy.
        previous: the last delay; None before the first redelivery.
        longest: the limit of the exponential back-off; None: no limit.
    """
    if previous is None:
        return policy.initial_redelivery_delay
    delay = policy.redelivery_delay
    if policy.use_exponential_back_off and policy.back_off_multiplier > 1 and previous > 0:
        delay = previous * policy.back_off_multiplier
        if longest is not None:
            delay = min(delay, longest)
    if policy.use_collision_avoidance:
        share = policy.collision_avoidance_percent / 100
        delay *= 1 + random.uniform(-share, share)  # noqa: S311 - jitter, not cryptography
    return delay
