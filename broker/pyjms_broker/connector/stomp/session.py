"""The session of one STOMP client, which translates between frames and commands.

A frame for the broker becomes a command. A command that requires a response is kept in `_requests`
until the response arrives; then the client gets its RECEIPT, or an ERROR. The broker handles a
command within `to_broker`; unless the command waits for a store or for space, the response has
arrived when that returns. (activemq-edges ST1 to ST3, ST12)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeAlias

from pyjms._logger import get_logger
from pyjms.errors import ConnectionFailedException, JMSException, RemoteProtocolError
from pyjms.jms.destination import Destination
from pyjms.wire.limits import LARGE_FRAME
from pyjms.wire.openwire.commands import (
    BaseCommand,
    Command,
    ConnectionId,
    ConsumerControl,
    ConsumerId,
    DestinationInfo,
    ExceptionResponse,
    LocalTransactionId,
    MessageDispatch,
    ProducerId,
    RemoveInfo,
    Response,
    SessionId,
    Throwable,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand
from pyjms.wire.stomp.frames import V1_2, Frame
from pyjms_broker.connector.stomp.destinations import DestinationNames
from pyjms_broker.connector.stomp.heart_beat import Periods
from pyjms_broker.connector.stomp.messages import LATEST_BODY, to_frame
from pyjms_broker.connector.stomp.subscriptions import Subscription

__all__ = ["ClientEnd", "FrameHandler", "State", "StompSession"]

logger = get_logger(__name__)

_MAXIMUM_TEXT: Final = 1000
"""The maximum number of characters of the header `message`."""
_ONE_LINE: Final = str.maketrans("\r\n\0", "   ")


class ClientEnd(Protocol):
    """The interface of `StompTransport` for its session: output to both sides."""

    @property
    def version(self) -> str: ...

    @property
    def has_version(self) -> bool: ...

    @property
    def congested(self) -> bool: ...

    def to_client(self, frame: Frame) -> None: ...

    def to_broker(self, command: Command) -> None: ...

    def call_next(self, function: Callable[[], object]) -> None: ...

    def connected(self, periods: Periods) -> None: ...

    def close(self) -> None: ...


class State(Enum):
    """The state of a client."""

    NEW = auto()
    CONNECTED = auto()
    DISCONNECTING = auto()
    CLOSED = auto()


class _Request(NamedTuple):
    receipt: str | None
    done: Callable[[], object] | None
    failed: Callable[[str], object] | None


FrameHandler: TypeAlias = Callable[["StompSession", Frame], None]


class StompSession:
    """The session of one client. Use it on the broker's event loop.

    Args:
        end: the outputs to both sides.
        connection_id: the id of the client's JMS connection.
        default_heart_beat: the periods of a client that does not specify any.
        handlers: the handlers of frames, by command, then by the beginning of a command.
    """

    def __init__(
        self,
        end: ClientEnd,
        connection_id: str,
        default_heart_beat: Periods,
        handlers: Mapping[str, FrameHandler],
    ) -> None:
        self.end = end
        self.default_heart_beat = default_heart_beat
        self.state = State.NEW
        self.client_id = ""
        self.connection_id = ConnectionId(connection_id)
        self.session_id = SessionId(connection_id, 1)
        self.producer_id = ProducerId(connection_id, 1, 1)
        self.names = DestinationNames(self._create_temporary)
        self.subscriptions: dict[str, Subscription] = {}
        """By the header `id`, or by `destination` if there was no `id`."""
        self.consumers: dict[ConsumerId, Subscription] = {}
        self.transactions: dict[str, LocalTransactionId] = {}
        self.numbers = itertools.count(1)
        """The counters of messages, consumers, transactions and temporary destinations."""
        self._handlers = handlers
        self._requests: dict[int, _Request] = {}
        self._command_ids = itertools.count(1)
        self._with_unsent_acks: dict[Subscription, None] = {}
        self._disconnect_receipt: str | None = None

    # from the client
    def on_frame(self, frame: Frame) -> None:
        """Handle a frame; an error in it becomes an ERROR frame."""
        if self.state in {State.DISCONNECTING, State.CLOSED}:
            return
        try:
            handler = self._handler(frame)
            if handler is not None:
                handler(self, frame)
        except ConnectionFailedException as error:
            logger.debug("A STOMP client has disconnected: %s", error)
        except JMSException as error:
            self.send_error(error.reason, frame.headers.get("receipt"))
            if self.state is State.NEW:
                self.close()

    def _handler(self, frame: Frame) -> FrameHandler | None:
        command = frame.command
        if frame.fault is not None:
            self.fail(frame.fault)
            return None
        handler = self._handlers.get(command)
        if handler is None:
            # ActiveMQ recognizes commands by their beginning (activemq-edges ST1)
            found = (known for known in self._handlers if command.startswith(known))
            handler = self._handlers.get(next(found, ""))
        if handler is None:
            self.fail(f"Unknown STOMP action: {command[:100]}", frame.headers.get("receipt"))
        return handler

    def require_connected(self) -> None:
        """Check that the client has sent CONNECT.

        Raises:
            RemoteProtocolError: it has not.
        """
        if self.state is not State.CONNECTED:
            raise RemoteProtocolError("Not connected.")

    # to the broker
    def request(
        self,
        command: BaseCommand,
        frame: Frame | None = None,
        *,
        done: Callable[[], object] | None = None,
        failed: Callable[[str], object] | None = None,
    ) -> None:
        """Send a command that gets a response to the broker.

        Args:
            command: the command.
            frame: the frame that caused it; its receipt is sent, or an ERROR.
            done: called after the receipt if the broker has carried out the command.
            failed: called with the reason if it has not.
        """
        number = command.command_id = next(self._command_ids)
        command.response_required = True
        receipt = None if frame is None else frame.headers.get("receipt")
        self._requests[number] = _Request(receipt, done, failed)
        self.end.to_broker(command)

    def oneway_or_request(self, command: BaseCommand, frame: Frame) -> None:
        """Send a command to the broker; with a response only if a receipt is requested."""
        if "receipt" in frame.headers:
            self.request(command, frame)
        else:
            command.command_id = next(self._command_ids)
            self.end.to_broker(command)

    def _create_temporary(self, kind: type[Destination]) -> Destination:
        destination = kind(f"{self.connection_id}:{next(self.numbers)}")
        refused: list[str] = []
        self._now(DestinationInfo(self.connection_id, destination), refused.append)
        if refused:
            raise RemoteProtocolError(refused[0])
        return destination

    def _now(self, command: BaseCommand, failed: Callable[[str], object]) -> None:
        """Send a command that the broker handles at once, without an ERROR on failure."""
        number = command.command_id = next(self._command_ids)
        command.response_required = True
        self._requests[number] = _Request(None, None, failed)
        self.end.to_broker(command)

    def send_unsent_acks(self) -> None:
        """Acknowledge messages that were delivered in mode auto."""
        waiting, self._with_unsent_acks = self._with_unsent_acks, {}
        for subscription in waiting:
            for ack in subscription.take_unsent():
                self.end.to_broker(ack)

    # from the broker
    def on_broker_command(self, command: Command) -> None:
        """Handle a command from the broker: a response, a message or a notification.

        Raises:
            ConnectionFailedException: the connection has ended.
        """
        if isinstance(command, MessageDispatch):
            self._on_dispatch(command)
        elif isinstance(command, Response):
            self._on_response(command)
        elif isinstance(command, ConnectionErrorCommand):
            self.send_error(_text(command.exception))
        elif isinstance(command, ConsumerControl) and command.close:
            assert command.consumer_id is not None
            # the broker cannot remove the consumer while it is dispatching
            self.end.call_next(partial(self._close_consumer, command.consumer_id))

    def _on_response(self, response: Response) -> None:
        request = self._requests.pop(response.correlation_id, None)
        if request is None:
            return
        if isinstance(response, ExceptionResponse):
            text = _text(response.exception)
            if request.failed is not None:
                request.failed(text)
            else:
                self.send_error(text, request.receipt)
        else:
            if request.receipt is not None:
                self.end.to_client(Frame("RECEIPT", {"receipt-id": request.receipt}))
            if request.done is not None:
                request.done()
        self._disconnect_when_idle()

    def _on_dispatch(self, dispatch: MessageDispatch) -> None:
        subscription = self.consumers.get(dispatch.consumer_id)  # type: ignore[arg-type]
        if subscription is None:
            return
        if subscription.waiting is not None:
            subscription.waiting.append(dispatch)
        else:
            self._deliver(subscription, dispatch)

    def deliver_waiting(self, subscription: Subscription) -> None:
        """Send messages that arrived before the subscription's RECEIPT."""
        waiting, subscription.waiting = subscription.waiting or (), None
        for dispatch in waiting:
            self._deliver(subscription, dispatch)

    def _deliver(self, subscription: Subscription, dispatch: MessageDispatch) -> None:
        message, version = dispatch.message, self.end.version
        if message is None:
            headers = {"destination": subscription.name, "message-id": "0", "browser": "end"}
            frame = Frame("MESSAGE", headers)
        else:
            frame = to_frame(dispatch, message, self.names, version, subscription.transformation)
            if len(frame.body) > LARGE_FRAME:
                self.end.call_next(LATEST_BODY.forget)
        if subscription.identifier is not None:
            frame.headers["subscription"] = subscription.identifier
        if message is not None:
            assert message.message_id is not None
            ack_id = subscription.deliver(message.message_id, dispatch.destination)
            if ack_id is None:
                if not self._with_unsent_acks:
                    # while it is dispatching, the broker does not accept acknowledgements
                    self.end.call_next(self.send_unsent_acks)
                self._with_unsent_acks[subscription] = None
            elif version == V1_2:
                frame.headers["ack"] = ack_id
        self.end.to_client(frame)

    def _close_consumer(self, consumer_id: ConsumerId) -> None:
        subscription = self.consumers.get(consumer_id)
        if subscription is not None:
            self.forget(subscription)
            self.request(RemoveInfo(consumer_id))
            self.send_error(f"The broker has closed the subscription to {subscription.name}")

    def forget(self, subscription: Subscription) -> None:
        """Deliver nothing more to a subscription."""
        self.send_unsent_acks()
        self.consumers.pop(subscription.consumer_id, None)
        key = subscription.key
        if self.subscriptions.get(key) is subscription:
            del self.subscriptions[key]

    # the end
    def send_error(self, text: str, receipt: str | None = None) -> None:
        """Send an ERROR; disconnect a client that causes errors and does not read them.

        Raises:
            ConnectionFailedException: the connection has ended.
        """
        headers = {"message": text[:_MAXIMUM_TEXT].translate(_ONE_LINE)}
        headers["content-type"] = "text/plain"
        if receipt is not None:
            headers["receipt-id"] = receipt
        self.end.to_client(
            Frame("ERROR", headers, f"{text}\n".replace("\0", " ").encode("utf-8", "replace"))
        )
        if self.end.congested:
            self.close()

    def fail(self, text: str, receipt: str | None = None) -> None:
        """Send an ERROR and close the connection."""
        self.send_error(text, receipt)
        self.close()

    def close(self) -> None:
        """Close the connection, after writing what is queued. Idempotent."""
        if self.state is not State.CLOSED:
            self.state = State.CLOSED
            self.end.close()

    def disconnect(self, receipt: str | None) -> None:
        """Close the connection, after the RECEIPT, when all previous requests are done."""
        self.state = State.DISCONNECTING
        self._disconnect_receipt = receipt
        self._disconnect_when_idle()

    def _disconnect_when_idle(self) -> None:
        if self.state is not State.DISCONNECTING or self._requests:
            return
        self.send_unsent_acks()
        self.state = State.CLOSED
        self.end.to_broker(RemoveInfo(self.connection_id))
        if self._disconnect_receipt is not None:
            self.end.to_client(Frame("RECEIPT", {"receipt-id": self._disconnect_receipt}))
        self.end.close()


def _text(error: Throwable | None) -> str:
    return (error.message if error is not None else None) or "The broker refused the request"
