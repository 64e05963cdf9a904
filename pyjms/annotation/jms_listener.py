"""`@jms_listener`: marks a function or method as a handler, for an application to find.

The function itself is returned unchanged, so it can be called, tested and typed as before. The
decorator may be repeated: each use declares a separate listener. `@inject` goes inside (below).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict, TypeVar

from pyjms.annotation.destinations import destinations_text
from pyjms.jms.destination import Destination
from pyjms.support.retry import RetryPolicy

if TYPE_CHECKING:
    from pyjms.annotation.jms_scheduled import Schedule

__all__ = [
    "JmsListenerMark",
    "ListenerOptions",
    "add_listener_mark",
    "jms_listener",
    "listener_marks",
]

F = TypeVar("F", bound=Callable[..., object])

_ATTRIBUTE = "__jms_listeners__"


@dataclass(frozen=True, slots=True)
class JmsListenerMark:
    """The arguments of one `@jms_listener`; None: not set, the factory's value applies."""

    destination: str
    id: str | None = None
    container_factory: str | None = None
    subscription: str | None = None
    selector: str | None = None
    concurrency: str | None = None
    durable: bool | None = None
    prefetch: int | Literal["auto"] | None = None
    batch_size: int | None = None
    batch_timeout: float | None = None
    retry: RetryPolicy | None = None
    unreadable_messages: Literal["dead_letter", "redeliver"] | None = None
    auto_startup: bool | None = None
    interceptors: tuple[Callable[..., object] | str, ...] | None = None
    schedule: Schedule | None = None
    """The times at which the broker sends the messages (`@jms_scheduled`), or None."""


class ListenerOptions(TypedDict, total=False):
    """The keyword arguments of `jms_listener`, which explains them."""

    id: str | None
    container_factory: str | None
    subscription: str | None
    selector: str | None
    concurrency: str | int | None
    durable: bool | None
    prefetch: int | Literal["auto"] | None
    batch_size: int | None
    batch_timeout: float | None
    retry: RetryPolicy | None
    unreadable_messages: Literal["dead_letter", "redeliver"] | None
    auto_startup: bool | None
    interceptors: Iterable[Callable[..., object] | str] | None


def jms_listener(
    *destinations: str | Destination,
    id: str | None = None,  # noqa: A002 - Spring's name
    container_factory: str | None = None,
    subscription: str | None = None,
    selector: str | None = None,
    concurrency: str | int | None = None,
    durable: bool | None = None,
    prefetch: int | Literal["auto"] | None = None,
    batch_size: int | None = None,
    batch_timeout: float | None = None,
    retry: RetryPolicy | None = None,
    unreadable_messages: Literal["dead_letter", "redeliver"] | None = None,
    auto_startup: bool | None = None,
    interceptors: Iterable[Callable[..., object] | str] | None = None,
) -> Callable[[F], F]:
    """Mark a function or method as the handler of messages from `destinations`.

    The handler may be `def` (runs in the container's threads) or `async def`. Returning commits,
    and sends the result to the message's reply_to; raising rolls back, so that the message is
    redelivered and finally moved to the dead-letter queue. A message that cannot be converted to
    the handler's arguments is moved there at once. All texts may contain `${...}`
    placeholders. Spring: @JmsListener.

    Args:
        destinations: a name, or a `Queue` or `Topic`. The container factory determines whether a
            name is that of a queue or a topic, unless it has a prefix: `queue://orders`,
            `topic://news`. Several destinations of one kind are consumed by the same consumers
            (ActiveMQ: a composite destination). For separate listeners, each with an id and
            settings, repeat the decorator.
        id: the listener's name in the registry, in YAML (`listeners.<id>`) and in logs.
        container_factory: the name of the factory that creates the container.
        subscription: the name of a durable subscription.
        selector: the condition that messages must match to be consumed.
        concurrency: the number of consumers, "lower-upper" or only the upper limit.
        durable: whether the subscription outlives the application: the destination is then a topic,
            and the connection needs a client id (`jms.client_id`).
        prefetch: the messages sent to each consumer ahead of their acknowledgements. "auto", the
            default of an application: few if the number of consumers may grow, so that each gets
            its share; otherwise the connection's prefetch.
        batch_size: the handler gets batches of at most this size, `list[Order]` instead of
            `Order`; each batch is one transaction.
        batch_timeout: the seconds from the first message of a batch until the handler is called,
            even if the batch is not full. 0, the default: do not wait for more messages.
        retry: how often, when and after which exceptions a message is delivered again whose handler
            raised, and the destination of its dead letters.
        unreadable_messages: "redeliver" treats messages that cannot be converted to the handler's
            arguments like any other failure; "dead_letter" is the default.
        auto_startup: False leaves the container stopped until it is started explicitly.
        interceptors: functions `(invocation, proceed)` around each call, within those of the
            application and the container factory; or their names (`module:name`, or the name of an
            entry point in the group `pyjms.interceptors`).

    Raises:
        TypeError: there is no destination.
        ValueError: options of several destinations do not follow the last one.
    """
    mark = JmsListenerMark(
        destination=destinations_text(destinations, "jms_listener"),
        id=id,
        container_factory=container_factory,
        subscription=subscription,
        selector=selector,
        concurrency=None if concurrency is None else str(concurrency),
        durable=durable,
        prefetch=prefetch,
        batch_size=batch_size,
        batch_timeout=batch_timeout,
        retry=retry,
        unreadable_messages=unreadable_messages,
        auto_startup=auto_startup,
        interceptors=None if interceptors is None else tuple(interceptors),
    )

    return lambda function: add_listener_mark(function, mark)


def add_listener_mark(function: F, mark: JmsListenerMark) -> F:
    """Add a mark to `function` and return it."""
    # decorators apply from the bottom up; keep the order in which they are read
    setattr(function, _ATTRIBUTE, (mark, *listener_marks(function)))
    return function


def listener_marks(function: object) -> tuple[JmsListenerMark, ...]:
    """Return the marks on `function`, in the order in which they are written."""
    marks: tuple[JmsListenerMark, ...] = getattr(function, _ATTRIBUTE, ())
    return marks
