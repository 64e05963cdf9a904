"""Errors of management requests. `java_name` is the exception that JMX clients expect."""

from __future__ import annotations

from typing import ClassVar

from pyjms.errors import JMSException


class ManagementException(JMSException):
    """A management request that is invalid."""

    java_name: ClassVar[str] = "javax.management.JMException"


class MalformedObjectNameException(ManagementException):
    """An invalid object name."""

    java_name = "javax.management.MalformedObjectNameException"


class InstanceNotFoundException(ManagementException):
    """No view has that name."""

    java_name = "javax.management.InstanceNotFoundException"


class AttributeNotFoundException(ManagementException):
    """The view has no such attribute, or the attribute is read-only."""

    java_name = "javax.management.AttributeNotFoundException"


class OperationNotFoundException(ManagementException):
    """The view has no such operation, or none with these parameters."""

    java_name = "java.lang.IllegalArgumentException"


class InvalidArgumentException(ManagementException):
    """A value has the wrong type for its attribute or parameter."""

    java_name = "java.lang.IllegalArgumentException"
