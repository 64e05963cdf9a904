"""Maps the exceptions that a broker sends, by Java class name, to exceptions of `pyjms.errors`.

ActiveMQ 5 sends `javax.jms` names, ActiveMQ 6 `jakarta.jms`. An unknown class becomes a plain
JMSException with the same text. (openwire-encoding 5 and 14)
"""

from __future__ import annotations

import re

from pyjms import errors
from pyjms.errors import JMSException, XAException
from pyjms.wire.openwire.commands import Throwable

__all__ = ["from_throwable"]

_JMS: tuple[type[JMSException], ...] = (
    errors.IllegalStateException,
    errors.InvalidClientIDException,
    errors.InvalidDestinationException,
    errors.InvalidSelectorException,
    JMSException,
    errors.JMSSecurityException,
    errors.MessageEOFException,
    errors.MessageFormatException,
    errors.MessageNotReadableException,
    errors.MessageNotWriteableException,
    errors.ResourceAllocationException,
    errors.TransactionInProgressException,
    errors.TransactionRolledBackException,
)
_CLASSES: dict[str, type[JMSException]] = {
    **{f"{at}.jms.{kind.__name__}": kind for at in ("javax", "jakarta") for kind in _JMS},
    "java.lang.SecurityException": errors.JMSSecurityException,
    "java.lang.IllegalStateException": errors.IllegalStateException,
    "java.lang.UnsupportedOperationException": errors.UnsupportedOperationException,
    "javax.transaction.xa.XAException": XAException,
    "org.apache.activemq.ConfigurationException": errors.ConfigurationException,
    "org.apache.activemq.ConnectionClosedException": errors.ConnectionClosedException,
    "org.apache.activemq.DestinationDoesNotExistException": (
        errors.DestinationDoesNotExistException
    ),
    "org.apache.activemq.transport.RequestTimedOutIOException": errors.RequestTimeoutException,
}
_XA_CODE = re.compile(r"xaErrorCode:(-?\d+)")
_MAX_CAUSES = 10  # a limit, because the peer determines the length of the chain


def from_throwable(throwable: Throwable | None) -> JMSException:
    """Return the exception for `throwable`; its causes are chained as `linked_exception`."""
    return _build(throwable, _MAX_CAUSES)


def _build(throwable: Throwable | None, causes: int) -> JMSException:
    if throwable is None:
        return JMSException("The broker refused the command without giving a reason")
    text = throwable.message or ""
    kind = _CLASSES.get(throwable.class_name or "")
    if kind is None:
        error = JMSException(text or str(throwable.class_name))
    elif kind is XAException:
        code = _XA_CODE.search(text)
        error = XAException(text, xa_error_code=int(code.group(1)) if code else 0)
    else:
        error = kind(text)
    if throwable.cause is not None and causes > 0:
        error.linked_exception = error.__cause__ = _build(throwable.cause, causes - 1)
    return error
