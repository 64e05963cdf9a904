"""Classification of errors: their cause, and whether a retry can succeed."""

from __future__ import annotations

from pyjms.errors import (
    ConfigurationException,
    IllegalStateException,
    InvalidClientIDException,
    InvalidSelectorException,
    JMSException,
    ListenerExecutionFailedException,
    MessageConversionException,
    PoisonMessageException,
    UnreadableMessageException,
    UnsupportedOperationException,
)

__all__ = [
    "NoListenerError",
    "RejectedWhileStoppingError",
    "cause_of",
    "describe",
    "is_infrastructure_failure",
    "is_misconfiguration",
    "poison_cause",
    "prevents_startup",
]


class NoListenerError(IllegalStateException):
    """A message arrived, but no listener is set."""


class RejectedWhileStoppingError(Exception):
    """The message arrived after the container was stopped; already logged and rolled back."""


_MISCONFIGURATIONS = (
    ConfigurationException,
    InvalidSelectorException,
    UnsupportedOperationException,
)

_NOT_FROM_THE_PROVIDER = (
    ListenerExecutionFailedException,
    MessageConversionException,
    PoisonMessageException,
    ConfigurationException,
    NoListenerError,
)
"""Not JMSExceptions in Spring: they do not mean that the connection has failed."""


def is_infrastructure_failure(error: BaseException) -> bool:
    """Return whether the connection may have failed: the error is the provider's JMSException."""
    return isinstance(error, JMSException) and not isinstance(error, _NOT_FROM_THE_PROVIDER)


def is_misconfiguration(error: BaseException) -> bool:
    """Return whether a retry cannot succeed: the request is invalid, not the connection lost."""
    return isinstance(error, _MISCONFIGURATIONS)


def prevents_startup(error: BaseException) -> bool:
    """Return whether an application must not start after this error.

    That includes a client id that is in use; a container without an application keeps trying to get
    the client id, as Spring's does.
    """
    return is_misconfiguration(error) or isinstance(error, InvalidClientIDException)


_WRAPPERS = (ListenerExecutionFailedException, UnreadableMessageException)


def poison_cause(
    error: BaseException, *, refuses_unreadable: bool
) -> PoisonMessageException | None:
    """Return the reason for a dead letter without redelivery; None: the message is redelivered.

    `refuses_unreadable`: whether an unreadable message becomes a dead letter at once.
    """
    cause = cause_of(error)
    if isinstance(cause, PoisonMessageException):
        return cause
    if not refuses_unreadable or not isinstance(error, UnreadableMessageException):
        return None
    reason = PoisonMessageException(error.reason)
    reason.__cause__ = cause
    return reason


def cause_of(error: BaseException) -> BaseException:
    """Return the handler's exception, or why the call failed; other errors unchanged."""
    if type(error) in _WRAPPERS and error.__cause__ is not None:
        return error.__cause__
    return error


def describe(error: BaseException) -> str:
    """Return the text of an error for a log line, followed by its cause unless that repeats it."""
    text = str(error) or type(error).__name__
    linked = getattr(error, "linked_exception", None) or error.__cause__
    if linked is None or (str(linked) and str(linked) in text):
        return text
    return f"{text}; nested exception is {type(linked).__name__}: {linked}"
