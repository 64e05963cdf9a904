"""Failures: their cause, whether a retry can succeed, and how log lines show them."""

from __future__ import annotations

import logging
from pathlib import Path
from types import TracebackType
from typing import Final

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


class NoListenerError(IllegalStateException):
    """A message arrived, but no listener is set."""


class RejectedWhileStoppingError(Exception):
    """The message arrived after the container was stopped; already logged and rolled back."""


class SharedConnectionNotInitializedError(Exception):
    """There is no shared connection yet: recovery opens one. Never leaves the container."""


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


_PACKAGE: Final = f"{Path(__file__).parents[1]}/"

_INSTALLED: Final = ("site-packages", "dist-packages", f"{Path(logging.__file__).parents[1]}/", "<")

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def users_traceback(error: BaseException) -> ExceptionInfo | None:
    """Return `error` for `exc_info`, with a traceback that begins at the first frame outside pyjms.

    None: a JMSException whose traceback has no frame of the application, such as a commit that
    failed because the broker was lost; its text is enough. Other errors of pyjms itself keep all
    frames, because they are defects. The exception is not changed.
    """
    found = error.__traceback__
    while found is not None and found.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        found = found.tb_next
    if found is None and isinstance(error, JMSException):
        return None
    return type(error), error, found or error.__traceback__


def last_frame(error: BaseException) -> str:
    """Return ` (shop.py:12)`, the innermost line of the application in the traceback, or "".

    Lines of installed packages count only if there are no others.
    """
    own = installed = ""
    found = error.__traceback__
    while found is not None:
        name = found.tb_frame.f_code.co_filename
        place = f" ({Path(name).name}:{found.tb_lineno})"
        if name.startswith(_PACKAGE):
            pass
        elif any(part in name for part in _INSTALLED):
            installed = installed or place
        else:
            own = place
        found = found.tb_next
    return own or installed
