"""Classification of errors: what caused them, and whether a retry can succeed."""

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
    """A message came and no listener is set."""


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
"""In Spring these are not JMSExceptions: they say nothing about the connection."""


def is_infrastructure_failure(error: BaseException) -> bool:
    """Return whether an error puts the connection in doubt: a JMSException of the provider."""
    return isinstance(error, JMSException) and not isinstance(error, _NOT_FROM_THE_PROVIDER)


def is_misconfiguration(error: BaseException) -> bool:
    """Return whether a retry is of no use: the request is wrong, not the connection."""
    return isinstance(error, _MISCONFIGURATIONS)


def prevents_startup(error: BaseException) -> bool:
    """Return whether an application must not start with it: also a client id that is in use.

    A container by itself keeps trying to get that client id, as Spring's does.
    """
    return is_misconfiguration(error) or isinstance(error, InvalidClientIDException)


_WRAPPERS = (ListenerExecutionFailedException, UnreadableMessageException)


def poison_cause(
    error: BaseException, *, refuses_unreadable: bool
) -> PoisonMessageException | None:
    """Return the reason to dead-letter a message without redelivery; None: it is redelivered.

    `refuses_unreadable`: whether a message that no argument can be made of has such a reason.
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
    """Return the handler's own exception, or why it could not be called; other errors as is."""
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
