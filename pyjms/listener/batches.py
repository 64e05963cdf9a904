"""Batch listeners: each call of a handler gets several messages, in one transaction.

A batch is complete when it has `batch_size` messages, or when `batch_timeout` seconds have passed
since its first message. With a timeout of 0, the default, it contains the messages that have
arrived already: a single message is handled at once, and under load the batches become larger. A
stop also completes the batch: its messages are handled, unlike a single message that arrives while
the container stops.

The batch is one delivery: its session's transaction is committed once, or rolled back as a whole.
Rejected messages are sent to the dead-letter destination in that transaction. A batch whose next
failure would make dead letters of its messages is delivered message by message instead
(`batch_fallback`), so that the good ones are handled and only the bad ones become dead letters.

A parameter of a batch handler is one of

    list[Order], Batch[Order]           the payloads, each converted to Order
    list[Message], list[TextMessage]    the messages
    Annotated[list[str], Header(...)]   a header of each message; Annotated[list[dict], Headers()]
    Batch, Batch[Order]                 the batch, to reject messages; also beside such a list
    Session, Provide[...]               once for the batch, as in other handlers

Arguments are resolved for each message and collected in columns. The lists are in the order of the
messages and equally long: a message that cannot be converted to one of the arguments is in none of
them. It is rejected, without an effect on the others. If no message remains, the handler is not
called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    TypeVar,
    cast,
    get_args,
    get_origin,
    overload,
)

from pyjms.errors import ConfigurationException, PoisonMessageException, UnreadableMessageException
from pyjms.jms.api import MessageConsumer, Session
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE, parse_destination
from pyjms.jms.message import Message
from pyjms.listener.decorators import MISSING, Header, Headers, PayloadField
from pyjms.listener.handler import HandlerListener, HandlerParameter, read_parameters
from pyjms.listener.properties import ContainerProperties
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger, one_line
from pyjms.support.retry import send_dead_letter
from pyjms.template.interceptors import HandlerInvocation

if TYPE_CHECKING:
    from pyjms.listener.delivery import Delivery, Retries
    from pyjms.listener.invoker import AsyncMessageListenerInvoker

logger: Final = get_logger(__name__)

T = TypeVar("T")

_QUOTED: Final = 3
"""The number of rejected messages that a log line names."""


class Batch(Sequence[T]):
    """The messages that a batch listener handles in one transaction: a sequence of payloads.

    A handler gets it as a parameter of type `Batch[Order]`, instead of or in addition to
    `list[Order]`. A message listener (a container's `message_listener`) gets it with the messages
    themselves as items. Use it only in the task or thread that handles the batch, until the handler
    has returned; nothing here blocks.

    Example:
        @jms_listener("items", batch_size=100)
        def store(items: Batch[str]) -> None:
            for number, item in enumerate(items):
                if not item:
                    items.reject_at(number, ValueError("empty"))
    """

    def __init__(
        self,
        messages: Sequence[Message],
        *,
        refuses_unreadable: bool = True,
        rejected: Mapping[int, BaseException] | None = None,
    ) -> None:
        """Make a batch whose items are the messages.

        Args:
            messages: what was received, oldest first.
            refuses_unreadable: whether a message that cannot be converted to an argument is
                rejected alone; otherwise it fails the batch.
            rejected: the reasons of the messages that are rejected from the start, by position;
                these messages are not among the items.
        """
        self.received: tuple[Message, ...] = tuple(messages)
        """All messages of the transaction, also those that could not be read."""
        self.refuses_unreadable = refuses_unreadable
        self._rejections = dict(rejected or {})
        self._positions = self._remaining()
        self._items: Sequence[Any] = self.messages

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of the items, in the same order."""
        return tuple(self.received[position] for position in self._positions)

    @property
    def rejections(self) -> Mapping[int, BaseException]:
        """The reasons of the rejected messages, by their positions in `received`."""
        return self._rejections

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def reject(self, item: T | Message, reason: str | BaseException = "") -> None:
        """Make the message of `item` a dead letter, in the transaction that commits the others.

        Args:
            item: one of the items, or its message. Of several equal items, the first that is not
                rejected is meant.
            reason: a text, or the exception that is the reason; the dead letter has it in its
                properties.

        Raises:
            ValueError: it is not an item of this batch, or it is rejected already.
        """
        self.reject_at(self._index_of(item), reason)

    def reject_at(self, index: int, reason: str | BaseException = "") -> None:
        """Make the message of the item at `index` a dead letter, as `reject` does.

        Raises:
            IndexError: there is no such item.
            ValueError: it is rejected already.
        """
        position = self._positions[index]
        if position in self._rejections:
            raise ValueError(f"Item {index} of the batch is rejected already")
        if not isinstance(reason, BaseException):
            reason = PoisonMessageException(reason or "rejected by the listener")
        self._rejections[position] = reason

    def fill(self, items: Sequence[T], unreadable: Mapping[int, BaseException]) -> None:
        """Replace the items by the payloads of all readable messages; reject the unreadable ones.

        Called by the code that converts the messages.
        """
        self._rejections.update(unreadable)
        self._positions = self._remaining()
        self._items = items

    def _remaining(self) -> list[int]:
        """Return the positions of the messages that are not rejected."""
        return [n for n in range(len(self.received)) if n not in self._rejections]

    def _index_of(self, item: object) -> int:
        positions = self._positions
        open_ones = [n for n, at in enumerate(positions) if at not in self._rejections]
        for number in open_ones:
            if self._items[number] is item or self.received[positions[number]] is item:
                return number
        for number in open_ones:
            if self._items[number] == item:
                return number
        raise ValueError(
            "The item to reject is not one of this batch, or it is rejected already: pass the item "
            "itself, its message, or call reject_at with its index"
        )

    def __repr__(self) -> str:
        rejected = f", {len(self._rejections)} rejected" if self._rejections else ""
        return f"<Batch of {len(self.received)} messages{rejected}>"


async def collect(
    invoker: AsyncMessageListenerInvoker,
    consumer: MessageConsumer,
    first: Message,
    properties: ContainerProperties,
    retries: Retries,
) -> Batch[Message]:
    """Return a batch that begins with `first`, a message that `consumer` has received.

    It is that message alone where a failed batch is delivered message by message. A stop of the
    container ends the wait for more messages. Messages that the `retries` have given
    up are rejected.
    """
    size, seconds = properties.batch_size or 1, properties.batch_timeout
    if retries.is_alone(first, consumer):
        size = 1
    deadline = _clock.now() + seconds
    messages = [first]
    given_up: dict[int, BaseException] = {}
    with invoker.shield():
        invoker.waiting = True
        while len(messages) < size:
            left = max(deadline - _clock.now(), 0.0) if seconds else 0.0
            message = await consumer.receive(left)
            if message is None:
                break
            reason = retries.reason_to_give_up(message, consumer)
            if reason is not None:
                given_up[len(messages)] = reason
            messages.append(message)
    invoker.waiting = False
    refuses = properties.unreadable_messages == "dead_letter"
    return Batch(messages, refuses_unreadable=refuses, rejected=given_up)


async def send_rejected(
    delivery: Delivery, batch: Batch[Message], properties: ContainerProperties
) -> None:
    """Send the rejected messages of a batch to the dead-letter destination."""
    name = properties.dead_letter or DEFAULT_DEAD_LETTER_QUEUE
    destination = parse_destination(name)
    rejected = [(batch.received[at], reason) for at, reason in sorted(batch.rejections.items())]
    for message, reason in rejected:
        await send_dead_letter(delivery.session, destination, message, reason)
    quoted = "; ".join(
        f"{message.message_id}: {type(reason).__name__}: {one_line(str(reason))}"
        for message, reason in rejected[:_QUOTED]
    )
    more = len(rejected) - _QUOTED
    logger.warning(
        "Listener %s rejects %d of %d messages of a batch from %s; they become dead letters on %s. "
        "%s%s",
        properties.log_name,
        len(rejected),
        len(batch.received),
        properties.destination_description,
        name,
        quoted,
        f"; and {more} more" if more > 0 else "",
        extra=delivery.log_fields(properties),
    )


class BatchHandlerListener(HandlerListener):
    """A listener, `async (batch, session)`, that calls a batch handler.

    Raises:
        ConfigurationException: a parameter cannot be supplied or must be a list, or the handler
            has a result.
    """

    HAS_REPLIES: ClassVar[bool] = False

    def __init__(self, handler: Callable[..., Any], **options: Any) -> None:
        self._columns: dict[str, type] = {}
        self._batches: set[str] = set()
        self._items_of = ""
        """The parameter whose payloads become the batch's items; "": the messages are the items."""
        super().__init__(handler, **options)
        self._each = [name in self._columns for name in self._names]

    def _invocation(self, message: Any, session: Session) -> HandlerInvocation:
        received = cast("Batch[Message]", message).received
        return HandlerInvocation(self.handler, self.listener_id, received[-1], session, received)

    async def _call_and_reply(self, message: Any, session: Session) -> Any:
        result = await super()._call_and_reply(message, session)
        if result is not None:
            logger.debug("The result of batch listener %s is not sent anywhere", self.listener_id)
        return result

    def call(self, message: Any, session: Session | None) -> Any:
        """Call the handler with a Batch; return None if none of its messages can be read.

        Raises:
            UnreadableMessageException: a message cannot be converted to a parameter, and unreadable
                messages are not rejected alone.
            ListenerExecutionFailedException: a parameter cannot be supplied now.
            Exception: the handler's own.
        """
        batch = cast("Batch[Any]", message)
        rows: list[list[object]] = []
        unreadable: dict[int, BaseException] = {}
        suppliers = [s for s, each in zip(self._suppliers, self._each, strict=True) if each]
        for position, received in enumerate(batch.received):
            if position in batch.rejections:
                continue
            try:
                rows.append([supply(received, session) for supply in suppliers])
            except Exception as error:
                failure = self._not_invoked(error, received)
                failure.__cause__ = error
                is_refused = isinstance(failure, UnreadableMessageException)
                if not is_refused or not batch.refuses_unreadable:
                    raise failure from error
                unreadable[position] = error
        if not rows:
            batch.fill([], unreadable)
            return _nothing() if self.is_coroutine else None
        return self._call_with(self._values(batch, rows, unreadable, session))

    def _values(
        self,
        batch: Batch[Any],
        rows: list[list[object]],
        unreadable: Mapping[int, BaseException],
        session: Session | None,
    ) -> list[object]:
        columns = [list(column) for column in zip(*rows, strict=True)]
        names = [name for name in self._names if name in self._columns]
        by_name = dict(zip(names, columns, strict=True))
        items = by_name.get(self._items_of) if self._items_of else None
        if items is None:
            left_out = {*unreadable, *batch.rejections}
            items = [m for n, m in enumerate(batch.received) if n not in left_out]
        batch.fill(items, unreadable)
        last = batch.received[-1]
        values: list[object] = []
        for name, supply in zip(self._names, self._suppliers, strict=True):
            if name in self._columns:
                values.append(batch if self._columns[name] is Batch else by_name[name])
            elif name in self._batches:
                values.append(batch)
            else:
                try:
                    values.append(supply(last, session))
                except Exception as error:
                    raise self._not_invoked(error, last) from error.__cause__ or error
        return values

    def _read_parameters(self, handler: Callable[..., Any]) -> list[HandlerParameter]:
        result = inspect.signature(handler).return_annotation
        if result not in (None, "None", inspect.Signature.empty):
            raise ConfigurationException(
                f"Handler {self.name}: the result of a batch handler is not sent anywhere",
                hint="annotate it with `-> None`, and send replies with a template",
            )
        parameters = read_parameters(handler, self.name)
        if any(parameter.marker(PayloadField) is not None for parameter in parameters):
            raise self._without_fields()
        found = [self._of_one(parameter) for parameter in parameters]
        has_list = any(self._is_list_of_payloads(parameter) for parameter in found)
        for parameter in found:
            if has_list and self._columns.get(parameter.name) is Batch:
                del self._columns[parameter.name]
                self._batches.add(parameter.name)
        return found

    def _marked_as_fields(self, parameters: list[HandlerParameter]) -> list[HandlerParameter]:
        raise self._without_fields()

    def _without_fields(self) -> ConfigurationException:
        return ConfigurationException(
            f"Handler {self.name}: a batch handler gets whole payloads, not their fields",
            hint="write a parameter of a type with these fields, such as list[Order]",
        )

    def _is_list_of_payloads(self, parameter: HandlerParameter) -> bool:
        is_list = self._columns.get(parameter.name) is list
        return is_list and not self._is_not_payload(parameter)

    def _of_one(self, parameter: HandlerParameter) -> HandlerParameter:
        """Return the parameter as it would be for a single message; note its column."""
        hint, name = parameter.hint, parameter.name
        if hint is Batch:
            self._batches.add(name)
            return parameter
        marked = parameter.marker(Header) or parameter.marker(Headers)
        if parameter.injection is not None or (
            isinstance(hint, type) and hint in self._session_types
        ):
            return parameter
        if parameter.keeps_default and marked is None and not _is_column(hint):
            return parameter
        if hint in (Any, object) and marked is None:
            self._columns[name] = list
            return replace(parameter, default=MISSING)
        if not _is_column(hint):
            raise self._not_a_list(parameter, marked)
        kind = get_origin(hint) or hint
        arguments = get_args(hint)
        if parameter.constraints:
            raise ConfigurationException(
                f"Handler {self.name}: the constraints of parameter {name!r} are about the whole "
                "batch, whose size the listener's settings determine",
                hint="write those of a message at the element: list[Annotated[int, Field(gt=0)]]",
            )
        self._columns[name] = kind
        one = parameter.of_type(arguments[0] if arguments else Any)
        return replace(one, default=MISSING)

    def _not_a_list(self, parameter: HandlerParameter, marked: object) -> ConfigurationException:
        shown = getattr(parameter.hint, "__name__", str(parameter.hint))
        what = "header" if marked is not None else "payload"
        return ConfigurationException(
            f"Handler {self.name}: parameter {parameter.name!r} must be a list, as the listener "
            f"has a batch_size: it gets the {what} of each message",
            hint=f"write list[{shown}]",
        )

    def _is_not_payload(self, parameter: HandlerParameter) -> bool:
        return parameter.name in self._batches or super()._is_not_payload(parameter)

    def _supplier(self, parameter: HandlerParameter, payload: HandlerParameter | None) -> Any:
        if payload is not None:
            self._items_of = payload.name
        if parameter.name in self._batches:
            return lambda _message, _session: None
        return super()._supplier(parameter, payload)


def _is_column(hint: Any) -> bool:
    """Return whether a parameter of this type collects one value per message."""
    return hint is list or get_origin(hint) in (list, Batch)


async def _nothing() -> None:
    """Do nothing, in place of a coroutine handler that is not called."""
