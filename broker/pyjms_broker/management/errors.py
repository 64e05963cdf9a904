"""Errors of management requests. `java_name` is the exception that JMX clients expect."""

from __future__ import annotations

from typing import ClassVar

from pyjms.errors import JMSException

__all__ = [
    "AttributeNotFoundException",
    "InstanceNotFoundException",
    "InvalidArgumentException",
    "MalformedObjectNameException",
    "ManagementException",
    "OperationNotFoundException",
]


class ManagementException(JMSException):
    """A management request that cannot be executed as it is."""

    java_name: ClassVar[str] = "javax.management.JMException"


class MalformedObjectNameException(ManagementException):
    """An object name that cannot be read."""

    java_name = "javax.management.MalformedObjectNameException"


class InstanceNotFoundException(ManagementException):
    """No view has that name."""

    java_name = "javax.management.InstanceNotFoundException"


class AttributeNotFoundException(ManagementException):
    """The view has no such attribute, or it cannot be written."""

    java_name = "javax.management.AttributeNotFoundException"


class OperationNotFoundException(ManagementException):
    """The view has no such operation, or none with these parameters."""

    java_name = "java.lang.IllegalArgumentException"


class InvalidArgumentException(ManagementException):
    """A value does not have the type of its attribute or parameter."""

    java_name = "java.lang.IllegalArgumentException"
