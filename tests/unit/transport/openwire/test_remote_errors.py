from __future__ import annotations

import pytest

from pyjms import errors
from pyjms.errors import JMSException, XAException
from pyjms.transport.openwire.correlator import from_throwable
from pyjms.wire.openwire.commands import Throwable

SAME_NAME = [
    "IllegalStateException",
    "InvalidClientIDException",
    "InvalidDestinationException",
    "InvalidSelectorException",
    "JMSException",
    "JMSSecurityException",
    "MessageEOFException",
    "MessageFormatException",
    "MessageNotReadableException",
    "MessageNotWriteableException",
    "ResourceAllocationException",
    "TransactionInProgressException",
    "TransactionRolledBackException",
]


@pytest.mark.parametrize("package", ["javax.jms", "jakarta.jms"])
@pytest.mark.parametrize("name", SAME_NAME)
def test_jms_exceptions_keep_their_class_and_text(package: str, name: str) -> None:
    error = from_throwable(Throwable(f"{package}.{name}", "why"))
    assert type(error) is getattr(errors, name)
    assert error.reason == "why"


@pytest.mark.parametrize(
    ("java", "kind"),
    [
        ("java.lang.SecurityException", errors.JMSSecurityException),
        ("java.lang.IllegalStateException", errors.IllegalStateException),
        (
            "org.apache.activemq.DestinationDoesNotExistException",
            errors.DestinationDoesNotExistException,
        ),
        ("java.lang.UnsupportedOperationException", errors.UnsupportedOperationException),
        ("java.io.IOException", JMSException),
        ("com.example.Odd", JMSException),
    ],
)
def test_other_java_exceptions(java: str, kind: type[JMSException]) -> None:
    error = from_throwable(Throwable(java, "why"))
    assert type(error) is kind
    assert error.reason == "why"


def test_xa_errors_carry_the_code_of_their_text() -> None:
    error = from_throwable(Throwable("javax.transaction.xa.XAException", "no xaErrorCode:-4"))
    assert isinstance(error, XAException)
    assert error.xa_error_code == -4


def test_causes_are_linked_and_an_endless_chain_is_truncated() -> None:
    root = Throwable("java.io.IOException", "disk")
    error = from_throwable(Throwable("javax.jms.JMSException", "why", (), root))
    assert isinstance(error.linked_exception, JMSException)
    assert error.linked_exception.reason == "disk"
    assert error.__cause__ is error.linked_exception

    deep = root
    for _ in range(1000):
        deep = Throwable("javax.jms.JMSException", "x", (), deep)
    depth = 0
    cause: BaseException | None = from_throwable(deep)
    while cause is not None:
        depth, cause = depth + 1, cause.__cause__
    assert depth == 11


def test_no_exception_and_no_text() -> None:
    assert "without giving a reason" in from_throwable(None).reason
    assert from_throwable(Throwable("com.example.Odd", None)).reason == "com.example.Odd"
