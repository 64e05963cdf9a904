from __future__ import annotations

import pytest

from pyjms import errors
from pyjms.transport.openwire.correlator import from_throwable
from pyjms_broker.connector.openwire.throwables import to_throwable


@pytest.mark.fact(
    "openwire-encoding 14/bad credentials",
    "openwire-encoding 14/bad selector",
    "openwire-encoding 14/no memory, fail-if-no-space",
)
@pytest.mark.parametrize(
    ("error", "java"),
    [
        (errors.JMSSecurityException("x"), "java.lang.SecurityException"),
        (errors.InvalidClientIDException("x"), "javax.jms.InvalidClientIDException"),
        (errors.InvalidDestinationException("x"), "javax.jms.InvalidDestinationException"),
        (errors.DestinationResolutionException("x"), "javax.jms.InvalidDestinationException"),
        (errors.JMSException("x"), "javax.jms.JMSException"),
        (
            errors.DestinationDoesNotExistException("x"),
            "org.apache.activemq.DestinationDoesNotExistException",
        ),
        (errors.InvalidSelectorException("x"), "javax.jms.InvalidSelectorException"),
        (errors.IllegalStateException("x"), "java.lang.IllegalStateException"),
        (errors.ResourceAllocationException("x"), "javax.jms.ResourceAllocationException"),
        (errors.TransactionRolledBackException("x"), "javax.jms.TransactionRolledBackException"),
        (errors.RequestTimeoutException("x"), "javax.jms.JMSException"),
    ],
)
def test_exception_classes_round_trip_by_their_java_names(
    error: errors.JMSException, java: str
) -> None:
    throwable = to_throwable(error)
    assert (throwable.class_name, throwable.message) == (java, "x")
    assert isinstance(error, type(from_throwable(throwable)))


def test_the_text_has_no_hint_of_ours() -> None:
    assert to_throwable(errors.JMSException("why", hint="do this")).message == "why"


def test_xa_texts_end_in_the_code() -> None:
    for text in ("no", "no xaErrorCode:-4"):
        throwable = to_throwable(errors.XAException(text, xa_error_code=-4))
        assert throwable.class_name == "javax.transaction.xa.XAException"
        assert throwable.message == "no xaErrorCode:-4"


def test_other_exceptions_keep_their_class_name_in_the_message() -> None:
    throwable = to_throwable(KeyError("k"))
    assert (throwable.class_name, throwable.message) == ("javax.jms.JMSException", "KeyError: 'k'")


def test_causes_travel_along_but_not_without_end() -> None:
    error: BaseException = ValueError("root")
    for _ in range(20):
        try:
            raise errors.JMSException("outer") from error
        except errors.JMSException as caught:
            error = caught
    depth, throwable = 0, to_throwable(error)
    while throwable.cause is not None:
        depth, throwable = depth + 1, throwable.cause
    assert depth == 5
