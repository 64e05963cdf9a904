"""`@jms_scheduled`: marks a function that the broker's scheduler triggers at given times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from pyjms._clock import check_seconds
from pyjms.annotation.jms_listener import JmsListenerMark, add_listener_mark

__all__ = ["NEVER", "Schedule", "jms_scheduled"]

F = TypeVar("F", bound=Callable[..., object])

NEVER: Final = "-"
"""The cron entry of a schedule that is never due. Spring: CRON_DISABLED."""

_QUEUE: Final = "pyjms.scheduled."


@dataclass(frozen=True)
class Schedule:
    """The times at which the broker sends a listener's messages, and their payload."""

    cron: str | None = None
    fixed_rate: float | None = None
    initial_delay: float | None = None
    payload: object = field(default="")
    expires: float | None = None

    def __str__(self) -> str:
        if self.cron is not None:
            return f"at {self.cron} of the broker's time"
        return f"every {self.fixed_rate:g} s"


def jms_scheduled(
    *,
    cron: str | None = None,
    fixed_rate: float | None = None,
    initial_delay: float | None = None,
    payload: object = "",
    expires: float | None = None,
    id: str | None = None,  # noqa: A002 - the listener's word
    container_factory: str | None = None,
    auto_startup: bool | None = None,
) -> Callable[[F], F]:
    """Mark a function that is called at the times of a cron entry, or at a fixed rate.

    At each time the broker's scheduler sends a message, the tick, to a queue. The handler gets it
    like any message: a tick is handled by one of the processes that run the application,
    redelivered if the handler raises, and waits if no process runs. The application creates the job
    on the broker when it starts, once for all processes, and replaces it when it has changed. If
    the broker has no scheduler, the application does not start. Spring: @Scheduled, with a lock.

    Args:
        cron: minute, hour, day of month, month, day of week (see `pyjms.jms.cron`), in the time
            zone of the broker; may contain `${...}`. "-" means never, and removes the job.
        fixed_rate: seconds between two ticks.
        initial_delay: seconds before the first tick of a `fixed_rate`; None: the same as
            `fixed_rate`.
        payload: the payload for the handler's payload parameter, if it has one.
        expires: seconds after which a tick that no process has received is discarded; None: never.
        id: the name of the listener, in YAML (`listeners.<id>`), and of the job, which is unique on
            the broker. None: module and name of the function.
        container_factory: the name of the factory that creates the container, or of a broker.
        auto_startup: False leaves the container stopped, and creates no job.

    Raises:
        TypeError: neither or both of `cron` and `fixed_rate` are given.
        ValueError: a number of seconds is not valid.
    """
    if (cron is None) == (fixed_rate is None):
        raise TypeError('@jms_scheduled needs either cron="0 6 * * *" or fixed_rate=seconds')
    for name, seconds in (("initial_delay", initial_delay), ("expires", expires)):
        if seconds is not None:
            check_seconds(name, seconds)
    if fixed_rate is not None:
        check_seconds("fixed_rate", fixed_rate, least=0.001)
    schedule = Schedule(cron, fixed_rate, initial_delay, payload, expires)

    def add_mark(function: F) -> F:
        own = id or f"{function.__module__}.{function.__qualname__}"
        mark = JmsListenerMark(
            destination=f"queue://{_QUEUE}{own}",
            id=own,
            container_factory=container_factory,
            concurrency="1-1",
            prefetch=1,  # so that no tick waits behind another one while a process is idle
            auto_startup=auto_startup,
            schedule=schedule,
        )
        return add_listener_mark(function, mark)

    return add_mark
