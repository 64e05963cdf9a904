"""Conversion of exceptions to Throwables with Java class names. (openwire-encoding 14)

The text is only the reason, in ActiveMQ's wording and without our hint. An exception that is not a
JMSException is a bug of the broker: the client gets its class and text, the log its traceback.
"""

from __future__ import annotations

import logging
from typing import NoReturn

from pyjms import errors
from pyjms.errors import (
    JMSException,
    UnsupportedOperationException,
    UnusedConnectionException,
    XAException,
)
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import Command, Throwable

logger = get_logger(__name__)

_JMS = (
    errors.InvalidClientIDException,
    errors.InvalidDestinationException,
    errors.InvalidSelectorException,
    errors.MessageEOFException,
    errors.MessageFormatException,
    errors.MessageNotReadableException,
    errors.MessageNotWriteableException,
    errors.ResourceAllocationException,
    errors.TransactionInProgressException,
    errors.TransactionRolledBackException,
    errors.JMSException,
)
_NAMES: dict[type[Exception], str] = {
    **{kind: f"javax.jms.{kind.__name__}" for kind in _JMS},
    errors.JMSSecurityException: "java.lang.SecurityException",
    errors.IllegalStateException: "java.lang.IllegalStateException",
    errors.UnsupportedOperationException: "java.lang.UnsupportedOperationException",
    errors.DestinationDoesNotExistException: (
        "org.apache.activemq.DestinationDoesNotExistException"
    ),
    errors.ConfigurationException: "org.apache.activemq.ConfigurationException",
    XAException: "javax.transaction.xa.XAException",
}
_MAXIMUM_CAUSES = 5
_MAXIMUM_TEXT = 4096
"""The maximum number of characters; a text may contain a selector or name of 64 KiB."""


def to_throwable(error: BaseException, causes: int = _MAXIMUM_CAUSES) -> Throwable:
    """Convert `error` and at most so many of its causes for the wire."""
    cause = error.__cause__ if causes > 0 else None
    return Throwable(
        java_name(type(error)),
        _text(error)[:_MAXIMUM_TEXT],
        (),
        to_throwable(cause, causes - 1) if cause is not None else None,
    )


def refuse(_connection: object, command: Command) -> NoReturn:
    """Refuse a command that no client sends; the default handler."""
    raise UnsupportedOperationException(
        f"This broker does not accept the command {type(command).__name__}"
    )


def log_unexpected(error: Exception, operation: str, client: object) -> None:
    """Log the traceback of an exception that is a bug; JMSExceptions are only sent."""
    if not isinstance(error, JMSException):
        logger.error("%s of %s failed", operation, client, exc_info=error)


def level_of_end(error: BaseException) -> int:
    """Return the level at which the end of a connection is logged: DEBUG for port checks."""
    return logging.DEBUG if isinstance(error, UnusedConnectionException) else logging.INFO


def java_name(kind: type[BaseException]) -> str:
    """Return the name of the Java class of an error for clients."""
    for ancestor in kind.__mro__:
        if ancestor in _NAMES:
            return _NAMES[ancestor]
    return "javax.jms.JMSException"


def _text(error: BaseException) -> str:
    if isinstance(error, XAException) and "xaErrorCode:" not in error.reason:
        return f"{error.reason} xaErrorCode:{error.xa_error_code}"
    if isinstance(error, JMSException):
        return error.reason
    return f"{type(error).__name__}: {error}"
