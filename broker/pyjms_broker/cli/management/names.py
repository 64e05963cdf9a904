"""Find the views of brokers, and of destinations by name or pattern."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyjms.errors import ConfigurationException, JMSException
from pyjms_broker.cli.management.client import Attributes, ManagementClient
from pyjms_broker.management.object_name import ObjectName, encoded_part

__all__ = ["DOMAIN", "broker_of", "brokers", "find_destinations", "pattern"]

DOMAIN: Final = "org.apache.activemq"


def pattern(**keys: str) -> str:
    """Return a pattern for views of any broker; values must be encoded already."""
    return f"{DOMAIN}:" + ",".join(
        f"{key}={value}" for key, value in {"type": "Broker", "brokerName": "*", **keys}.items()
    )


def brokers(client: ManagementClient, *attributes: str) -> dict[str, Attributes]:
    """Return attributes of the brokers at a URL, by view name.

    Raises:
        JMSException: there is no broker, or it cannot be read.
    """
    found = client.read_all(pattern(), *attributes)
    if not found:
        raise JMSException(f"{client.url} has no broker", hint="has it started?")
    return found


def broker_of(name: str) -> str:
    """Return the broker's name from the name of a view."""
    return ObjectName(name).keys.get("brokerName", "")


def find_destinations(
    client: ManagementClient, names: Sequence[str], kind: str, *attributes: str
) -> dict[str, Attributes]:
    """Return attributes of destinations, always including Name, by view name.

    Args:
        client: access to the broker.
        names: may contain `*` for any characters, and start with `queue://` or `topic://`.
        kind: `Queue` or `Topic`.
        attributes: names of the attributes to read.

    Raises:
        ConfigurationException: a name has the prefix of the other kind.
        JMSException: no destination matches a name.
    """
    found: dict[str, Attributes] = {}
    for name in names:
        bare = _bare(name, kind)
        key = encoded_part(bare).replace("&ast;", "*")
        if bare == ">" or bare.endswith(".>"):  # ActiveMQ's wildcard
            key = f"{key[:-1]}*"
        wanted = pattern(destinationType=kind, destinationName=key)
        matching = client.read_all(wanted, "Name", *attributes)
        if not matching:
            raise JMSException(
                f"There is no {kind.lower()} {bare} at {client.url}",
                hint="`pyjms broker dstat` lists the destinations",
            )
        found.update(matching)
    return found


def _bare(name: str, kind: str) -> str:
    scheme, separator, rest = name.partition("://")
    if not separator:
        return name
    if scheme != kind.lower():
        raise ConfigurationException(
            f"{name} is not a {kind.lower()}", hint=f"write {kind.lower()}://{rest}, or {rest}"
        )
    return rest
