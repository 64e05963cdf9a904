"""The decorators and markers of handlers, which only attach metadata for an application to find.

`@jms_listener` marks a function or method as a handler, `@jms_scheduled` one that the broker's
scheduler triggers, `@send_to` sets where a handler's result is sent, `@idempotent` that its effects
must not be repeated, and `@jms_listener_configurer` marks a function that adds listeners in code.
`Header`, `Headers` and `Payload` mark parameters: `Annotated[str, Header("jms_replyTo")]`.

The function itself is returned unchanged, so it can be called, tested and typed as before.
`@jms_listener` may be repeated: each use declares a separate listener. `@inject` goes inside
(below).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, TypedDict, TypeVar, Unpack

from pyjms.jms.destination import Destination
from pyjms.runtime.clock import check_seconds
from pyjms.runtime.keywords import names_keywords, refuse_unknown_keywords
from pyjms.support.retry import RetryPolicy

T = TypeVar("T", bound=Callable[..., object] | type)


def marking(attribute: str, value: object) -> Callable[[T], T]:
    """Return a decorator that sets an attribute and otherwise leaves what it decorates as it is."""

    def mark(target: T) -> T:
        setattr(target, attribute, value)
        return target

    return mark


def destinations_text(destinations: tuple[object, ...], mark: str) -> str:
    """Return the text of one destination: a composite destination, if there are several."""
    if not destinations:
        raise TypeError(f'@{mark} needs a destination: write @{mark}("name")')
    texts = [destination_text(destination, mark) for destination in destinations]
    for text in texts[:-1]:
        if "?" in text:
            raise ValueError(
                f"@{mark}: {text!r} is not the last of several destinations, whose options are "
                "those of all: write them behind the last one, or repeat the mark"
            )
    return ",".join(texts)


def destination_text(destination: object, mark: str) -> str:
    """Return the name as written, or `topic://name?options` of a destination."""
    if isinstance(destination, str):
        return destination
    if isinstance(destination, Destination):
        options = "&".join(f"{name}={value}" for name, value in destination.options.items())
        return f"{destination.qualified_name}?{options}" if options else destination.qualified_name
    if callable(destination):
        name = getattr(destination, "__name__", "handler")
        raise TypeError(f'@{mark} needs a destination: write @{mark}("name") above {name}')
    raise TypeError(f"@{mark} takes a name, a Queue or a Topic, not {type(destination).__name__}")


F = TypeVar("F", bound=Callable[..., object])

_LISTENERS = "__jms_listeners__"


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
    batch_fallback: Literal["single", "none"] | None
    retry: RetryPolicy | None
    unreadable_messages: Literal["dead_letter", "redeliver"] | None
    errors: Literal["redeliver", "reply"] | None
    reply_none: bool | None
    timeout: float | None
    rate_limit: float | None
    auto_startup: bool | None
    interceptors: Iterable[Callable[..., object] | str] | None
    fields: bool


@dataclass(frozen=True, slots=True)
class JmsListenerMark:
    """The arguments of one `@jms_listener`; what is not set, or None, is the factory's."""

    destination: str
    options: ListenerOptions
    schedule: Schedule | None = None
    """The times at which the broker sends the messages (`@jms_scheduled`), or None."""

    @property
    def id(self) -> str | None:
        """The id as written, or None."""
        return self.options.get("id")


def jms_listener(
    *destinations: str | Destination, **options: Unpack[ListenerOptions]
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
            default of an application: few on a queue, so that each consumer and each process gets
            its share of a backlog.
        batch_size: the handler gets batches of at most this size, `list[Order]` instead of
            `Order`; each batch is one transaction.
        batch_timeout: the seconds from the first message of a batch until the handler is called,
            even if the batch is not full. 0, the default: do not wait for more messages.
        batch_fallback: "single", the default: the last attempt of a batch that raised goes message
            by message, so that only those that raise again become dead letters; "none": the whole
            batch becomes dead letters.
        retry: how often, when and after which exceptions a message is delivered again whose handler
            raised, and the destination of its dead letters.
        unreadable_messages: "redeliver" treats messages that cannot be converted to the handler's
            arguments like any other failure; "dead_letter" is the default.
        errors: "reply" sends an exception to the requester, whose `request` raises `RemoteError`
            with its type and text, and consumes the message; what the handler sent is rolled back.
            It applies to messages with a reply destination; `Retry` still redelivers.
            "redeliver", the default: a requester gets no reply.
        reply_none: True also sends None as a reply, to a message with a reply destination: a text
            message without text, for which `request` returns None. By default, None means no reply.
        timeout: seconds that one call of the handler may take. An `async def` handler is cancelled
            then, which counts as a failure (TimeoutError). A `def` handler cannot be interrupted:
            that is logged and counted, and the listener is `stuck` in health checks meanwhile.
        rate_limit: the number of messages a second that this process handles at most, evenly
            spaced, with all consumers of the listener; 0.5 is one message in two seconds.
        auto_startup: False leaves the container stopped until it is started explicitly.
        interceptors: functions `(invocation, proceed)` around each call, within those of the
            application and the container factory; or their names (`module:name`, or the name of an
            entry point in the group `pyjms.interceptors`).
        fields: True: the parameters without another source are the fields of the payload, a JSON
            object or a MapMessage, by their names; see `PayloadField`.

    Raises:
        TypeError: there is no destination, or no option of that name.
        ValueError: options of several destinations do not follow the last one.

    Example:
        @jms_listener("orders.new", id="orders", concurrency="2-8")
        def on_order(order: dict[str, int]) -> None:
            print(order["id"])
    """
    mark = mark_of(*destinations, **options)
    return lambda function: add_listener_mark(function, mark)


def mark_of(
    *destinations: str | Destination, **options: Unpack[ListenerOptions]
) -> JmsListenerMark:
    """Return the mark that `@jms_listener` with these arguments makes."""
    refuse_unknown_keywords("@jms_listener", options, ListenerOptions.__annotations__)
    if (concurrency := options.get("concurrency")) is not None:
        options["concurrency"] = str(concurrency)
    if (interceptors := options.get("interceptors")) is not None:
        options["interceptors"] = tuple(interceptors)
    return JmsListenerMark(destinations_text(destinations, "jms_listener"), options)


def add_listener_mark(function: F, mark: JmsListenerMark) -> F:
    """Add a mark to `function` and return it."""
    # decorators apply from the bottom up; keep the order in which they are read
    setattr(function, _LISTENERS, (mark, *listener_marks(function)))
    return function


def listener_marks(function: object) -> tuple[JmsListenerMark, ...]:
    """Return the marks on `function`, in the order in which they are written."""
    marks: tuple[JmsListenerMark, ...] = getattr(function, _LISTENERS, ())
    return marks


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


@dataclass(frozen=True, slots=True)
class Header:
    """One header or property of the message, converted to the parameter's type.

    Names are Spring's: `jms_correlationId`, `jms_replyTo`, `jms_type`, `jms_messageId`,
    `jms_redelivered` ..., or the name of a property; None is the parameter's name. A missing header
    is an error unless `default` is given, the parameter has a default or its type allows None.
    The default also replaces an empty string. Spring: @Header.

    Example:
        @jms_listener("orders.new")
        def on_order(order: str, region: Annotated[str, Header("region")]) -> None:
            print(region, order)
    """

    name: str | None = None
    required: bool = True
    default: object = MISSING


@dataclass(frozen=True, slots=True)
class Headers:
    """All headers and properties as a dict. Spring: @Headers."""


@dataclass(frozen=True, slots=True)
class Payload:
    """The converted body; with `required=False`, None for an empty body. Spring: @Payload."""

    required: bool = True


@dataclass(frozen=True, slots=True)
class PayloadField:
    """One field of the payload, a JSON object or a MapMessage, converted to the parameter's type.

    A missing field is an error unless the parameter has a default. Other fields are ignored. If one
    of the fields cannot be converted, the message is unreadable, with all problems in one text.
    `@jms_listener(..., fields=True)` marks all parameters that have no other source.

    Args:
        name: the field's name in the message; None: the parameter's.
    """

    name: str | None = None


NEVER: Final = "-"
"""The cron entry of a schedule that is never due. Spring: CRON_DISABLED."""

_TICKS: Final = "pyjms.scheduled."


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


@names_keywords
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

    Example:
        @jms_scheduled(cron="0 6 * * MON-FRI", id="reports")
        def report() -> None:
            print("good morning")
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
        options: ListenerOptions = {
            "id": own,
            "container_factory": container_factory,
            "concurrency": "1-1",
            "prefetch": 1,  # so that no tick waits behind another one while a process is idle
            "auto_startup": auto_startup,
        }
        mark = JmsListenerMark(f"queue://{_TICKS}{own}", options, schedule)
        return add_listener_mark(function, mark)

    return add_mark


_SEND_TO = "__jms_send_to__"


def send_to(destination: str | Destination) -> Callable[[T], T]:
    """Send the handler's result to `destination`, unless the message has a reply_to.

    A name means a queue or a topic, as for the listener's destination; the prefix `queue://` or
    `topic://` makes it explicit. On a class it applies to all handlers that have no `@send_to`.
    Spring: @SendTo; as there, the message's reply_to takes precedence.

    Raises:
        TypeError: there is no destination.

    Example:
        @jms_listener("orders.new")
        @send_to("orders.checked")
        def check(order: dict[str, int]) -> dict[str, int]:
            return {"id": order["id"]}
    """
    return marking(_SEND_TO, destination_text(destination, "send_to"))


def send_to_destination(handler: object) -> str | None:
    """Return the destination of `@send_to` on this handler or its class, or None."""
    own: str | None = getattr(handler, _SEND_TO, None)
    if own is None:
        instance = getattr(handler, "__self__", None)
        own = getattr(instance, _SEND_TO, None)
    return own


_IDEMPOTENT = "__jms_idempotent__"


@dataclass(slots=True, eq=False)
class IdempotentMark:
    """The arguments of `@idempotent`, and the number of duplicates skipped so far."""

    key: str | Callable[..., object]
    store: object
    duplicates: int = 0


def idempotent(
    *, key: str | Callable[..., object] = "jms_messageId", store: object = None
) -> Callable[[F], F]:
    """Mark a handler that skips messages whose key has been handled before.

    A skipped message is consumed, with one debug line, and counted. The key is remembered once the
    message is committed; a handler that raises is called again. The decorator only marks: the
    function can be called and tested as before. It may be above or below `@jms_listener`.

    Args:
        key: the name of a header or property (`order_id`; the default is `jms_messageId`); a format
            string with fields in braces, each such a name or the payload with attributes and keys
            (`"{jms_type}:{payload.number}"`); or a function of the payload.
        store: remembers the keys: an object with the methods of `IdempotencyStore`, or the
            name of an entry point in the group `pyjms.idempotency_stores`. None: a
            separate `MemoryIdempotencyStore` for this handler.

    Example:
        @jms_listener("payments", id="payments")
        @idempotent(key="payment")
        def pay(amount: float, payment: Annotated[str, Header("payment")]) -> None:
            print(payment, amount)
    """
    return marking(_IDEMPOTENT, IdempotentMark(key, store))


def idempotent_mark(handler: object) -> IdempotentMark | None:
    """Return the mark of a handler, or None; its `duplicates` counts the skipped messages."""
    mark: IdempotentMark | None = getattr(handler, _IDEMPOTENT, None)
    return mark


_CONFIGURER = "__jms_listener_configurer__"


def jms_listener_configurer(*, order: float = 0) -> Callable[[F], F]:
    """Mark a function that is called with the application's JmsListenerEndpointRegistrar.

    It is called when the application collects its listeners, at the start and during a check,
    before anything connects; it must not block. Further parameters may be `Provide[...]`. Spring:
    JmsListenerConfigurer.

    Args:
        order: lower ones are called first.

    Raises:
        TypeError: the decorated object is not a function.
    """
    if callable(order):
        raise TypeError("@jms_listener_configurer needs parentheses: @jms_listener_configurer()")
    return marking(_CONFIGURER, order)


def configurer_order(function: object) -> float | None:
    """Return the order of a configurer; None if the function is not a configurer."""
    order: float | None = getattr(function, _CONFIGURER, None)
    return order
