"""The errors of JMS and ours.

    Exception
    └── JMSException                          error_code, hint, retryable, linked_exception
        ├── IllegalStateException             the call is not allowed now
        │   └── ConnectionClosedException     the connection is closed
        ├── InvalidClientIDException
        ├── InvalidDestinationException
        │   └── DestinationResolutionException
        ├── DestinationDoesNotExistException  ActiveMQ: a temporary destination has gone
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
        ├── ListenerExecutionFailedException  message, listener_id
        │   └── ReplyFailureException
        ├── ProtocolViolation
        │   ├── LocalProtocolError            we were about to break the protocol
        │   └── RemoteProtocolError           the peer broke it; position
        ├── ConfigurationException            source, line
        └── UnsupportedOperationException     also NotImplementedError

Java's IllegalArgument and NumberFormat are ValueError here, NullPointer is TypeError.
One tree serves JMS and Spring: there are no runtime twins.
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
    "ProtocolViolation",
    "RemoteProtocolError",
    "ReplyFailureException",
    "RequestTimeoutException",
    "ResourceAllocationException",
    "TransactionInProgressException",
    "TransactionRolledBackException",
    "UnsupportedOperationException",
    "XAException",
]


class JMSException(Exception):
    """Something JMS could not do.

    `str()` is the reason followed by the hint; `reason` and `hint` have them apart.
    JMS: javax.jms.JMSException; linkedException is `linked_exception` (or `__cause__`).
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
    """The connection, or what it made, is closed."""

    def __init__(self, reason: str = "The connection is already closed", **kwargs: Any) -> None:
        super().__init__(reason, **kwargs)


class InvalidClientIDException(JMSException):
    """The client id is refused, or another connection has it."""


class InvalidDestinationException(JMSException):
    """The destination is none, malformed, unknown or not ours to use."""


class DestinationResolutionException(InvalidDestinationException):
    """A name led to no destination, or to one of the wrong kind."""


class DestinationDoesNotExistException(JMSException):
    """ActiveMQ: the temporary destination does not exist (any more)."""


class InvalidSelectorException(JMSException, ValueError):
    """The selector is not valid SQL-92 as JMS uses it; `position` is where, from 0."""

    def __init__(self, reason: str = "", *, position: int | None = None, **kwargs: Any) -> None:
        super().__init__(reason, **kwargs)
        self.position = position


class JMSSecurityException(JMSException):
    """User and password were refused, or the user may not do this."""


class MessageEOFException(JMSException, EOFError):
    """A read past the end of a StreamMessage or BytesMessage."""


class MessageFormatException(JMSException, ValueError):
    """A value has no JMS type, or cannot be read as the wanted one."""


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
    """The provider lacks what is needed: memory, disk, an extra."""

    retryable = True


class TransactionInProgressException(JMSException):
    """commit or rollback inside a transaction that somebody else runs."""


class TransactionRolledBackException(JMSException):
    """The commit ended in a rollback."""

    retryable = True


class XAException(JMSException):
    """An XA call failed; `xa_error_code` is XA's number (-4 is XAER_NOTA)."""

    def __init__(self, reason: str = "", *, xa_error_code: int = 0, **kwargs: Any) -> None:
        super().__init__(reason, **kwargs)
        self.xa_error_code = xa_error_code


class ConnectionFailedException(JMSException, ConnectionError):
    """The transport could not be opened, or broke."""

    retryable = True


class RequestTimeoutException(JMSException, TimeoutError):
    """The broker did not answer in time."""

    retryable = True


class ListenerExecutionFailedException(JMSException):
    """A handler raised (the cause), or could not be called with the message."""

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


class ProtocolViolation(JMSException):
    """The wire protocol was broken."""


class LocalProtocolError(ProtocolViolation):
    """What we were asked to write cannot be written."""


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
    """A setting is wrong; `source` and `line` say where."""

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
    """JMS has it, this provider or object does not."""
