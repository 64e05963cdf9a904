"""The exceptions of pyjms: those of JMS, of Spring and its own.

    Exception
    ├── Retry                                 delay: delivers the message again
    ├── Skip                                  consumes the message
    └── JMSException                          error_code, hint, retryable, linked_exception
        ├── IllegalStateException             the call is not allowed now
        │   └── ConnectionClosedException     the connection is closed
        ├── InvalidClientIDException
        ├── InvalidDestinationException
        │   └── DestinationResolutionException
        ├── DestinationDoesNotExistException  ActiveMQ: a temporary destination was deleted
        ├── InvalidSelectorException          also ValueError; position
        ├── JMSSecurityException
        ├── MessageEOFException               also EOFError
        ├── MessageFormatException            also ValueError
        │   └── MessageConversionException    content_type, target
        ├── MessageNotReadableException
        ├── MessageNotWriteableException
        ├── ResourceAllocationException
        ├── TransactionInProgressException
        ├── TransactionRolledBackException
        ├── SynchedLocalTransactionFailedException  after the transaction of another resource
        ├── HeuristicCompletionException      a part of a chain is committed, another is not
        ├── XAException                       xa_error_code
        ├── ConnectionFailedException         also ConnectionError
        ├── RequestTimeoutException           also TimeoutError
        ├── NoConsumerException               destination
        ├── PoisonMessageException            dead-letters the message at once
        │   └── Reject
        ├── ListenerExecutionFailedException  message, listener_id
        │   ├── ReplyFailureException
        │   └── UnreadableMessageException
        ├── ProtocolViolation
        │   ├── LocalProtocolError            a command of ours would violate the protocol
        │   └── RemoteProtocolError           the peer violated it; position
        ├── ConfigurationException            source, line
        └── UnsupportedOperationException     also NotImplementedError

Java's IllegalArgumentException and NumberFormatException are ValueError here, NullPointerException
is TypeError. The unchecked copies of the JMS exceptions in Spring and JMS 2.0 (JMSRuntimeException
...) do not exist: there is a single hierarchy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

__all__ = [
    "ConfigurationException",
    "ConnectionClosedException",
    "ConnectionFailedException",
    "DestinationDoesNotExistException",
    "DestinationResolutionException",
    "HeuristicCompletionException",
    "IllegalStateException",
    "InvalidClientIDException",
    "InvalidDestinationException",
    "InvalidSelectorException",
    "JMSException",
    "JMSSecurityException",
    "ListenerExecutionFailedException",
    "LocalProtocolError",
    "MessageConversionException",
    "MessageEOFException",
    "MessageFormatException",
    "MessageNotReadableException",
    "MessageNotWriteableException",
    "NoConsumerException",
    "PoisonMessageException",
    "ProtocolViolation",
    "Reject",
    "RemoteProtocolError",
    "ReplyFailureException",
    "RequestTimeoutException",
    "ResourceAllocationException",
    "Retry",
    "Skip",
    "SynchedLocalTransactionFailedException",
    "TransactionInProgressException",
    "TransactionRolledBackException",
    "UnreadableMessageException",
    "UnsupportedOperationException",
    "XAException",
]


class JMSException(Exception):
    """The base class of all JMS exceptions.

    `str()` is the reason followed by the hint, what to do about it; the attributes `reason` and
    `hint` have them separately. `retryable` is true if the same call may succeed later.
    JMS: javax.jms.JMSException; its linkedException is `linked_exception` (and `__cause__`).
    """

    retryable: bool = False

    def __init__(self, reason: str = "", *, error_code: str = "", hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.error_code = error_code
        self.hint = hint
        self.linked_exception: BaseException | None = None

    def __str__(self) -> str:
        return f"{self.reason} ({self.hint})" if self.hint else self.reason


class IllegalStateException(JMSException):
    """The call is not allowed in this state, or on this thread."""


class ConnectionClosedException(IllegalStateException):
    """The connection, or the session, consumer or producer, is closed."""

    def __init__(self, reason: str = "The connection is already closed", **kwargs: str) -> None:
        super().__init__(reason, **kwargs)


class InvalidClientIDException(JMSException):
    """The client id was rejected, or another connection has it."""


class InvalidDestinationException(JMSException):
    """The destination is missing, malformed, unknown or not usable by this client."""


class DestinationResolutionException(InvalidDestinationException):
    """A name could not be resolved, or only to a destination of the wrong kind."""


class DestinationDoesNotExistException(JMSException):
    """ActiveMQ: the temporary destination does not exist (any more)."""


class InvalidSelectorException(JMSException, ValueError):
    """The selector is malformed; `position` is the offset of the error, from 0."""

    def __init__(self, reason: str = "", *, position: int | None = None, **kwargs: str) -> None:
        super().__init__(reason, **kwargs)
        self.position = position


class JMSSecurityException(JMSException):
    """The credentials were rejected, or the user is not authorized."""


class MessageEOFException(JMSException, EOFError):
    """A read past the end of a StreamMessage or BytesMessage."""


class MessageFormatException(JMSException, ValueError):
    """A value has no JMS type, or cannot be converted to the requested one."""


class MessageConversionException(MessageFormatException):
    """A converter could not convert a payload to a message, or a message to a payload."""

    def __init__(
        self,
        reason: str = "",
        *,
        content_type: str | None = None,
        target: object = None,
        **kwargs: str,
    ) -> None:
        super().__init__(reason, **kwargs)
        self.content_type = content_type
        self.target = target


class MessageNotReadableException(JMSException):
    """The body is write-only until reset()."""


class MessageNotWriteableException(JMSException):
    """A received message is read-only until cleared."""


class ResourceAllocationException(JMSException):
    """A resource is missing: memory, disk space, an optional package."""

    retryable = True


class TransactionInProgressException(JMSException):
    """commit or rollback was called inside a transaction that is managed elsewhere."""


class TransactionRolledBackException(JMSException):
    """The transaction was rolled back instead of committed."""

    retryable = True


class SynchedLocalTransactionFailedException(JMSException):
    """A session could not be committed after the transaction with which it was synchronized.

    That transaction is committed. Spring: SynchedLocalTransactionFailedException.
    """


class HeuristicCompletionException(JMSException):
    """Some of several chained transactions were committed, and others were not.

    Spring: HeuristicCompletionException.
    """


class XAException(JMSException):
    """An XA call failed; `xa_error_code` has the kind. JTA: javax.transaction.xa.XAException.

    Codes from XA_RBBASE to XA_RBEND: the branch was rolled back. 5 to 8: the broker, or its
    administrator, has made a heuristic decision. Below 0: see each code.
    """

    XA_RBBASE: ClassVar[int] = 100
    XA_RBROLLBACK: ClassVar[int] = 100
    """The branch was rolled back, for a reason that has no code."""
    XA_RBCOMMFAIL: ClassVar[int] = 101
    XA_RBDEADLOCK: ClassVar[int] = 102
    XA_RBINTEGRITY: ClassVar[int] = 103
    XA_RBOTHER: ClassVar[int] = 104
    XA_RBPROTO: ClassVar[int] = 105
    XA_RBTIMEOUT: ClassVar[int] = 106
    XA_RBTRANSIENT: ClassVar[int] = 107
    XA_RBEND: ClassVar[int] = 107
    XA_NOMIGRATE: ClassVar[int] = 9
    XA_HEURHAZ: ClassVar[int] = 8
    XA_HEURCOM: ClassVar[int] = 7
    XA_HEURRB: ClassVar[int] = 6
    XA_HEURMIX: ClassVar[int] = 5
    XA_RETRY: ClassVar[int] = 4
    XA_RDONLY: ClassVar[int] = 3
    XAER_ASYNC: ClassVar[int] = -2
    XAER_RMERR: ClassVar[int] = -3
    """The broker failed in the branch."""
    XAER_NOTA: ClassVar[int] = -4
    """The broker knows no such branch."""
    XAER_INVAL: ClassVar[int] = -5
    """An argument is invalid."""
    XAER_PROTO: ClassVar[int] = -6
    """The call is not allowed in this state."""
    XAER_RMFAIL: ClassVar[int] = -7
    """The broker cannot be reached: query the branch later, with `recover`."""
    XAER_DUPID: ClassVar[int] = -8
    XAER_OUTSIDE: ClassVar[int] = -9

    def __init__(self, reason: str = "", *, xa_error_code: int = 0, **kwargs: str) -> None:
        super().__init__(reason, **kwargs)
        self.xa_error_code = xa_error_code

    @property
    def is_rollback(self) -> bool:
        """Whether the code says that the branch was rolled back."""
        return self.XA_RBBASE <= self.xa_error_code <= self.XA_RBEND


class ConnectionFailedException(JMSException, ConnectionError):
    """The connection could not be opened, or was lost."""

    retryable = True


class UnusedConnectionException(ConnectionFailedException):
    """The peer has closed the connection without having sent anything, as a port check does."""


class RequestTimeoutException(JMSException, TimeoutError):
    """The broker did not respond in time."""

    retryable = True


class NoConsumerException(JMSException):
    """The destination of a request has no consumer, so that no reply could come; nothing was sent.

    `destination` is its name, as text.
    """

    retryable = True

    def __init__(self, message: str = "", *, destination: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.destination = destination


class PoisonMessageException(JMSException):
    """No further attempt can succeed: the message becomes a dead letter without redelivery.

    A listener raises it; its cause, if it has one, is the reason in the dead letter. ActiveMQ: a
    poison acknowledgement; Spring AMQP: AmqpRejectAndDontRequeueException.
    """


class Reject(PoisonMessageException):
    """Raised by a handler: its message becomes a dead letter at once, with this reason.

    Example:
        def on_order(order: dict[str, int]) -> None:
            if "id" not in order:
                raise Reject("an order without an id")
    """


class Retry(Exception):
    """Raised by a handler: its message is rolled back and delivered again, after `delay` seconds.

    It counts as an attempt. None: the delay of the listener's redelivery policy. Its cause, if it
    has one, is the reason in a dead letter.

    Raises:
        TypeError: the delay is not a number.
        ValueError: the delay is not finite, or negative.

    Example:
        def on_order(order: str) -> None:
            raise Retry(delay=30.0)  # the shop is closed
    """

    def __init__(self, reason: str = "", *, delay: float | None = None) -> None:
        super().__init__(reason)
        if delay is not None and not 0 <= delay < math.inf:
            raise ValueError(f"'delay' must be a finite number of seconds, 0 or more: {delay}")
        self.delay = delay


class Skip(Exception):
    """Raised by a handler: its message needs no handling, and is consumed as if it had returned.

    Messages that the handler has sent in the session's transaction are committed.

    Example:
        def on_order(order: dict[str, int]) -> None:
            if order["id"] < 0:
                raise Skip("a test order")
    """


class RemoteError(JMSException):
    """The handler of a request raised; its listener sends errors (`errors="reply"`).

    `type_name` is the name of the exception's type, `reason` its text.
    """

    def __init__(self, reason: str = "", *, type_name: str = "") -> None:
        super().__init__(f"{type_name}: {reason}" if reason else type_name)
        self.type_name: str = type_name


class ListenerExecutionFailedException(JMSException):
    """A handler raised the cause, or could not be called with the message."""

    def __init__(
        self,
        reason: str = "",
        *,
        message: object = None,
        listener_id: str | None = None,
        **kwargs: str,
    ) -> None:
        super().__init__(reason, **kwargs)
        self.message = message
        self.listener_id = listener_id


class ReplyFailureException(ListenerExecutionFailedException):
    """The handler's result could not be sent as a reply."""


class UnreadableMessageException(ListenerExecutionFailedException):
    """The handler was not called: the message cannot be converted to its arguments, even later."""


class ProtocolViolation(JMSException):
    """The wire protocol was violated."""


class LocalProtocolError(ProtocolViolation):
    """A command cannot be written."""


class RemoteProtocolError(ProtocolViolation):
    """The peer violated the wire protocol.

    `position` is the offset in the frame, if known; `completed` has the commands that the same
    chunk of bytes completed before the violation.
    """

    def __init__(self, reason: str = "", *, position: int | None = None, **kwargs: str) -> None:
        super().__init__(reason, **kwargs)
        self.position = position
        self.completed: tuple[Any, ...] = ()


class ConfigurationException(JMSException):
    """Settings or handlers are invalid; `source` and `line` say where.

    `problems` has one exception for each problem, itself if it is the only one.
    """

    def __init__(
        self,
        reason: str = "",
        *,
        source: str | None = None,
        line: int | None = None,
        problems: Sequence[ConfigurationException] = (),
        **kwargs: str,
    ) -> None:
        super().__init__(reason, **kwargs)
        self.source = source
        self.line = line
        self._problems = tuple(problems)

    @property
    def problems(self) -> tuple[ConfigurationException, ...]:
        """The individual problems, ordered by file and line; those without a file are last."""
        return self._problems or (self,)

    @classmethod
    def join(cls, errors: Iterable[ConfigurationException]) -> ConfigurationException:
        """Return one exception with a line for each problem of one or more exceptions."""
        single = {str(problem): problem for error in errors for problem in error.problems}
        ordered = sorted(
            single.values(), key=lambda each: (not each.source, each.source or "", each.line or 0)
        )
        first = ordered[0]
        if len(ordered) == 1:
            return first
        text = "\n".join(map(str, ordered))
        return cls(text, source=first.source, line=first.line, problems=ordered)


class UnsupportedOperationException(JMSException, NotImplementedError):
    """JMS defines the operation; this provider or object does not support it."""


def nearest_name(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the name in `known` that is most similar to `name`, for hints; None: none is."""
    import difflib  # noqa: PLC0415 - not at each start-up

    return next(iter(difflib.get_close_matches(name, tuple(known), n=1, cutoff=cutoff)), None)
