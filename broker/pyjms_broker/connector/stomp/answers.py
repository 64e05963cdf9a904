"""The answers to a client's frames, which go out before the messages that the frames cause.

Clients such as Perl's Net::Stomp take the next frame as the answer, so a MESSAGE waits until

    it is of                                                      the end of its wait
    a SEND or COMMIT of this session with a receipt               the RECEIPT
    a SUBSCRIBE                                                   the broker has accepted it
    anything else, dispatched while the broker handles ACK,
    NACK, ABORT, UNSUBSCRIBE or BEGIN with a receipt              the RECEIPT
    anything else, while it handles SEND or COMMIT with one,      the RECEIPT, or the end of this
    or a COMMIT with one is not answered                          turn of the event loop

The last end is earlier because a SEND may wait for space that only the acknowledgement of the
waiting message makes. So it is for a message of several destinations, one of which may be full.
Behind a message that waits, all others do. (activemq-edges ST18)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from pyjms.errors import ConnectionFailedException
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    BaseCommand,
    MessageDispatch,
    ProducerId,
    TransactionId,
    TransactionInfo,
    TransactionType,
)

if TYPE_CHECKING:
    from pyjms_broker.connector.stomp.session import Subscription

logger = get_logger(__name__)

_NONE: Final = 0
"""No request: the numbers of requests begin with 1."""


class Request(NamedTuple):
    """A request that the broker has not answered.

    Args:
        receipt: the header of the client's frame.
        done: called after the RECEIPT.
        failed: called with the reason instead of sending an ERROR.
    """

    receipt: str | None
    done: Callable[[], object] | None
    failed: Callable[[str], object] | None


@dataclass(slots=True)
class _Waiting:
    subscription: Subscription
    dispatch: MessageDispatch
    number: int
    """The request whose answer goes before it."""
    this_turn: bool = False
    """Whether it waits no longer than this turn of the event loop."""


class Answers:
    """The requests of one session without an answer, and the messages that wait for it.

    Args:
        producer_id: the producer of the session's messages.
        deliver: sends a message to the client.
        call_next: calls a function in the next turn of the event loop.
    """

    def __init__(
        self,
        producer_id: ProducerId,
        deliver: Callable[[Subscription, MessageDispatch], None],
        call_next: Callable[[Callable[[], object]], None],
    ) -> None:
        self._producer_id = producer_id
        self._deliver = deliver
        self._call_next = call_next
        self._requests: dict[int, Request] = {}
        self._commits: dict[TransactionId, int] = {}
        self._handled = _NONE
        self._handled_may_block = False
        self._waiting: deque[_Waiting] = deque()
        self._turn_will_end = False

    def __bool__(self) -> bool:
        """Return whether an answer is missing."""
        return bool(self._requests)

    def expect(
        self, command: BaseCommand, request: Request, to_broker: Callable[[BaseCommand], None]
    ) -> None:
        """Pass a command, which has its number, to the broker; the answer may come meanwhile."""
        number = command.command_id
        self._requests[number] = request
        before = self._handled, self._handled_may_block
        if request.receipt is not None:
            self._handled, self._handled_may_block = number, isinstance(command, ActiveMQMessage)
            if (
                isinstance(command, TransactionInfo)
                and command.type == TransactionType.COMMIT_ONE_PHASE
                and command.transaction_id is not None
            ):
                self._handled_may_block = True
                self._commits[command.transaction_id] = number
        try:
            to_broker(command)
        finally:
            self._handled, self._handled_may_block = before

    def take(self, number: int) -> Request | None:
        """Return the request that the broker answers."""
        request = self._requests.pop(number, None)
        if self._commits:
            self._commits = {x: n for x, n in self._commits.items() if n != number}
        return request

    def hold(self, subscription: Subscription, dispatch: MessageDispatch) -> bool:
        """Return whether a message waits for an answer."""
        if not self._requests and not self._waiting:
            return False
        waiting = self._wait_of(subscription, dispatch)
        if waiting.number == _NONE and not self._waiting:
            return False
        if waiting.this_turn and not self._turn_will_end:
            self._turn_will_end = True
            self._call_next(self._end_turn)
        self._waiting.append(waiting)
        return True

    def _wait_of(self, subscription: Subscription, dispatch: MessageDispatch) -> _Waiting:
        requests, message = self._requests, dispatch.message
        if subscription.request_number in requests:
            return _Waiting(subscription, dispatch, subscription.request_number)
        if message is not None and message.producer_id == self._producer_id:
            xid = message.transaction_id
            number = message.command_id if xid is None else self._commits.get(xid, _NONE)
            if number in requests:
                is_copy = message.original_destination is not None
                return _Waiting(subscription, dispatch, number, is_copy)
        if self._handled in requests:
            return _Waiting(subscription, dispatch, self._handled, self._handled_may_block)
        last_commit = next(reversed(self._commits.values()), _NONE)
        return _Waiting(subscription, dispatch, last_commit, this_turn=last_commit != _NONE)

    def _end_turn(self) -> None:
        self._turn_will_end = False
        for waiting in self._waiting:
            if waiting.this_turn:
                waiting.number, waiting.this_turn = _NONE, False
        try:
            self.release()
        except ConnectionFailedException as error:  # nobody else would catch it
            logger.debug("A STOMP client has disconnected: %s", error)

    def release(self) -> None:
        """Deliver the messages whose wait has ended, in order."""
        while self._waiting and self._waiting[0].number not in self._requests:
            waiting = self._waiting.popleft()
            self._deliver(waiting.subscription, waiting.dispatch)
