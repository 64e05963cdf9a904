"""The exceptions of pyjms: those of JMS, of Spring and our own.

    Exception
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
        ├── XAException                       xa_error_code
        ├── ConnectionFailedException         also ConnectionError
        ├── RequestTimeoutException           also TimeoutError
        ├── PoisonMessageException            dead-letters the message at once
        ├── ListenerExecutionFailedException  message, listener_id
        │   ├── ReplyFailureException
        │   └── UnreadableMessageException
        ├── ProtocolViolation
        │   ├── LocalProtocolError            we were about to break the protocol
        │   └── RemoteProtocolError           the peer broke it; position
        ├── ConfigurationException            source, line
        └── UnsupportedOperationException     also NotImplementedError

Java's IllegalArgumentException and NumberFormatException are ValueError here, NullPointerException
is TypeError. Spring's unchecked copies of the JMS exceptions do not exist: one tree serves both.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "ConfigurationException",
    "ConnectionClosedException",
    "ConnectionFailedException",
    "DestinationDoesNotExistException",
    "DestinationResolutionException",
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
    "PoisonMessageException",
    "ProtocolViolation",
    "RemoteProtocolError",
    "ReplyFailureException",
    "RequestTimeoutException",
    "ResourceAllocationException",
    "TransactionInProgressException",
    "TransactionRolledBackException",
    "UnreadableMessageException",
    "UnsupportedOperationException",
    "XAException",
]


class JMSException(Exception):
    """The base of all exceptions of JMS.

    `str()` is the reason followed by the hint, what to do about it; `reason` and `hint` hold them
    separately. `retryable` is true if the same call may succeed later.
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

    def __init__(self, reason: str = "The connection is already closed", **kwargs: Any) -> None:
        super().__init__(reason, **kwargs)


class InvalidClientIDException(JMSException):
    """The client id was rejected, or another connection has it."""


class InvalidDestinationException(JMSException):
    """The destination is missing, malformed, unknown or not usable by this client."""


class DestinationResolutionException(InvalidDestinationException):
    """A name resolved to no destination, or to one of the wrong kind."""


class DestinationDoesNotExistException(JMSException):
    """ActiveMQ: the temporary destination does not exist (any more)."""


class InvalidSelectorException(JMSException, ValueError):
    """The selector is malformed; `position` is the offset of the error, from 0."""

    def __init__(self, reason: str = "", *, position: int | None = None, **kwargs: Any) -> None:
        super().__init__(reason, **kwargs)
        self.position = position


class JMSSecurityException(JMSException):
    """The credentials were rejected, or the user is not authorized."""


class MessageEOFException(JMSException, EOFError):
    """A read past the end of a StreamMessage or BytesMessage."""


class MessageFormatException(JMSException, ValueError):
    """A value has no JMS type, or cannot be converted to the requested one."""


class MessageConversionException(MessageFormatException):
    """A converter could not turn a payload into a message, or back."""

    def __init__(
        self,
        reason: str = "",
        *,
        content_type: str | None = None,
        target: object = None,
        **kwargs: Any,
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


class XAException(JMSException):
    """An XA call failed; `xa_error_code` is the XA error code (-4 is XAER_NOTA)."""

    def __init__(self, reason: str = "", *, xa_error_code: int = 0, **kwargs: Any) -> None:
        super().__init__(reason, **kwargs)
        self.xa_error_code = xa_error_code


class ConnectionFailedException(JMSException, ConnectionError):
    """The connection could not be opened, or was lost."""

    retryable = True


class RequestTimeoutException(JMSException, TimeoutError):
    """The broker did not respond in time."""

    retryable = True


class PoisonMessageException(JMSException):
    """No further attempt can succeed: the message becomes a dead letter without redelivery.

    A listener raises it; its cause, if it has one, is the reason in the dead letter. ActiveMQ: a
    poison acknowledgement; Spring AMQP: AmqpRejectAndDontRequeueException.
    """


class ListenerExecutionFailedException(JMSException):
    """A handler raised the cause, or could not be called with the message."""

    def __init__(
        self,
        reason: str = "",
        *,
        message: object = None,
        listener_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(reason, **kwargs)
        self.message = message
        self.listener_id = listener_id


class ReplyFailureException(ListenerExecutionFailedException):
    """The handler's result could not be sent as a reply."""


class UnreadableMessageException(ListenerExecutionFailedException):
    """The handler was not called: no argument can be made of the message, now or later."""


class ProtocolViolation(JMSException):
    """The wire protocol was broken."""


class LocalProtocolError(ProtocolViolation):
    """A command cannot be written."""


class RemoteProtocolError(ProtocolViolation):
    """The peer broke the wire protocol.

    `position` is the offset in the frame, if known; `completed` holds the commands that the
    same portion of bytes completed before the fault.
    """

    def __init__(self, reason: str = "", *, position: int | None = None, **kwargs: Any) -> None:
        super().__init__(reason, **kwargs)
        self.position = position
        self.completed: tuple[Any, ...] = ()


class ConfigurationException(JMSException):
    """A setting is invalid; `source` and `line` say where."""

    def __init__(
        self,
        reason: str = "",
        *,
        source: str | None = None,
        line: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(reason, **kwargs)
        self.source = source
        self.line = line


class UnsupportedOperationException(JMSException, NotImplementedError):
    """JMS defines the operation; this provider or object does not support it."""
