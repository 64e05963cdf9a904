"""Logins: the user name and password of a request, checked like those of any client.

The filter chain checks them (`Broker.authenticate`), so users, hashes, limits of failed logins and
log messages are the same as for connectors. (activemq-edges W1, SE1)
"""

from __future__ import annotations

import base64
import binascii

from pyjms.errors import JMSSecurityException
from pyjms.wire.openwire.commands import ConnectionInfo
from pyjms_broker.api.completion import wait_for
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.web.configuration import WebConfiguration
from pyjms_broker.web.host import WebHost
from pyjms_broker.web.user import Access, WebUser

__all__ = ["CONNECTOR_NAME", "basic_credentials", "logged_in"]

CONNECTOR_NAME = "web"
"""The connector's name in log messages about refused logins."""


def basic_credentials(header: str) -> tuple[str, str]:
    """Return the user name and password of an `Authorization` header.

    Raises:
        JMSSecurityException: it is not `Basic`, or invalid.
    """
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() == "basic":
        try:
            name, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            pass
        else:
            if colon:
                return name, password
    raise JMSSecurityException(
        "The header Authorization cannot be read", hint="send Basic with user:password in base64"
    )


async def logged_in(
    host: WebHost, configuration: WebConfiguration, name: str, password: str, address: str
) -> WebUser:
    """Return the user with that name and password. Cancellable.

    Raises:
        JMSSecurityException: the login is wrong, or the address has failed too often.
        IllegalStateException: the broker is not running.
    """
    context = ConnectionContext()
    context.connector_name = CONNECTOR_NAME
    info = ConnectionInfo(user_name=name, password=password)
    info.client_ip = address
    await wait_for(host.broker.authenticate(context, info))
    security = context.security
    if security is None:
        raise JMSSecurityException(f"User name [{name}] or password is invalid.")
    groups = security.groups
    access = Access.USER
    if groups & configuration.reader_groups:
        access = Access.READER
    if groups & configuration.admin_groups:
        access = Access.ADMINISTRATOR
    return WebUser(security.user_name, groups, access, password)
