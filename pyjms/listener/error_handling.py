"""Exceptions of listeners: their cause, whether a retry can succeed, and who is told.

`handle_exception` passes the exception of a delivery to the container's error handler; without one
it logs the exception. An exception of the provider, after which the connection may be lost, is
passed to the exception listener as well.

*The log.* Each failed attempt is one line, which names the last line of the handler's code. With
`log_tracebacks` the first attempt is logged with a traceback, without the frames of pyjms. The last
attempt is logged by the client, which says that the message becomes a dead letter, and why; it is
logged here at DEBUG. The body is never logged, though an application's exception may quote it. A
dead letter's cause ends with `cause:` and that exception, whereas Spring's containers leave
`cause:null`. (spring-jms 1.7.2, 11.2)
"""

from __future__ import annotations

import inspect
import logging
from types import TracebackType
from typing import TYPE_CHECKING, Final

from pyjms.errors import (
    ConfigurationException,
    IllegalStateException,
    InvalidClientIDException,
    InvalidSelectorException,
    JMSException,
    ListenerExecutionFailedException,
    MessageConversionException,
    PoisonMessageException,
    Retry,
    UnreadableMessageException,
    UnsupportedOperationException,
)
from pyjms.runtime.logging import PACKAGE, error_text, get_logger, last_frame, one_line, shorten

if TYPE_CHECKING:
    from pyjms.listener.delivery import Delivery
    from pyjms.listener.properties import ContainerProperties

logger: Final = get_logger(__name__)

_LONGEST_TEXT: Final = 500


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


def called_exit(error: SystemExit, message: object) -> ListenerExecutionFailedException:
    """Return the failure of a listener that calls sys.exit(), which must not end the process."""
    return ListenerExecutionFailedException(
        f"The listener called sys.exit({'' if error.code is None else repr(error.code)})",
        message=message,
        hint="raise Reject for a dead letter; the application's stop() ends the program",
    )


def describe(error: BaseException) -> str:
    """Return the text of an error for a log line, followed by its cause unless that repeats it."""
    text = str(error) or type(error).__name__
    linked = getattr(error, "linked_exception", None) or error.__cause__
    if linked is None or (str(linked) and str(linked) in text):
        return text
    return f"{text}; nested exception is {type(linked).__name__}: {linked}"


ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None]


def users_traceback(error: BaseException) -> ExceptionInfo | None:
    """Return `error` for `exc_info`, with a traceback that begins at the first frame outside pyjms.

    None: a JMSException whose traceback has no frame of the application, such as a commit that
    failed because the broker was lost; its text is enough. Other errors of pyjms itself keep all
    frames, because they are defects. The exception is not changed.
    """
    found = error.__traceback__
    while found is not None and found.tb_frame.f_code.co_filename.startswith(PACKAGE):
        found = found.tb_next
    if found is None and isinstance(error, JMSException):
        return None
    return type(error), error, found or error.__traceback__


async def handle_exception(
    properties: ContainerProperties,
    error: Exception,
    *,
    is_active: bool,
    delivery: Delivery | None = None,
) -> None:
    """Report a failed delivery of a container; None: the end of a transaction failed."""
    if isinstance(error, RejectedWhileStoppingError):
        return
    if is_infrastructure_failure(error):
        properties.invoke_exception_listener(error)
    if not is_active:
        logger.debug("Listener exception after container shutdown", exc_info=error)
    elif properties.error_handler is None:
        _log_failure(properties, error, delivery)
    else:
        result = properties.error_handler(error)
        if inspect.isawaitable(result):
            await result


def _log_failure(
    properties: ContainerProperties, error: Exception, delivery: Delivery | None
) -> None:
    """Log a failed delivery if no error handler is set.

    `delivery` is None at the end of an external transaction.
    """
    reason = cause_of(error)
    message = None if delivery is None else delivery.message
    reported_later = delivery is not None and (
        _is_sent_later(delivery) or becomes_dead_letter(properties, delivery)
    )
    is_first = message is None or message.delivery_count <= 1
    has_traceback = is_first and properties.log_tracebacks and not isinstance(reason, Retry)
    logger.log(
        logging.DEBUG if reported_later else logging.WARNING,
        "Listener %s failed%s: %s%s",
        properties.log_name,
        ", at the end of its transaction" if delivery is None else _where(properties, delivery),
        _one_line(reason),
        "" if isinstance(reason, Retry) else last_frame(reason),
        exc_info=users_traceback(reason) if has_traceback else None,
        extra=properties.log_extra if delivery is None else delivery.log_fields(properties),
    )


def log_overridden(properties: ContainerProperties, error: BaseException) -> None:
    """Log a listener's error if the rollback has failed too; that error has its own line."""
    reason = cause_of(error)
    logger.error(
        "Application exception overridden by rollback error: %s%s",
        _one_line(reason),
        last_frame(reason),
        exc_info=users_traceback(reason) if properties.log_tracebacks else None,
        extra=properties.log_extra,
    )


def _where(properties: ContainerProperties, delivery: Delivery) -> str:
    count = delivery.message.delivery_count
    most = _attempts(properties, delivery)
    attempt = f"attempt {count}" if most is None else f"attempt {count} of {most}"
    if delivery.is_acknowledged:
        attempt = f"attempt {count}, which is the last: the message counts as acknowledged"
    destination = delivery.message.destination or properties.destination_description
    text = f" on {destination}, {delivery.subject}, {attempt}"
    if not delivery.handled:
        return text
    step = "commit" if delivery.session.transacted else "acknowledgement"
    return f"{text}: the handler had returned, its {step} failed"


def _attempts(properties: ContainerProperties, delivery: Delivery) -> int | None:
    """Return the maximum number of deliveries of a message; None: it is not known."""
    policy = getattr(delivery.consumer, "redelivery_policy", None)
    redeliveries = getattr(policy, "maximum_redeliveries", -1)
    if redeliveries < 0:
        return None
    return redeliveries + 1 if properties.dead_letter is None else redeliveries


def _is_sent_later(delivery: Delivery) -> bool:
    """Return whether the next delivery sends the message, or its error, instead of handling it."""
    return delivery.is_given_up and not delivery.is_acknowledged and not delivery.handled


def becomes_dead_letter(properties: ContainerProperties, delivery: Delivery) -> bool:
    """Return whether the message becomes a dead letter by this rollback."""
    if delivery.is_acknowledged or delivery.handled or delivery.is_given_up:
        return False
    most = _attempts(properties, delivery)
    if delivery.is_poison:
        return hasattr(delivery.consumer, "redelivery_policy")
    return most is not None and delivery.message.delivery_count >= most


def _one_line(error: BaseException) -> str:
    text = shorten(one_line(error_text(error)), _LONGEST_TEXT)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
