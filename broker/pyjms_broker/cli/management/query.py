"""`pyjms broker query`: print the attributes of views selected by ActiveMQ's filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

from pyjms_broker.cli.management.client import Attributes, ManagementClient
from pyjms_broker.cli.management.options import Json, management_command

__all__ = ["QueryCommand", "query"]

_CLIENTS: Final = {"connector": "clientConnectors"}
_TYPES: Final[dict[str, tuple[Mapping[str, str], str]]] = {
    "Broker": ({}, "brokerName"),
    "Connector": (_CLIENTS, "connectorName"),
    "Connection": (
        {**_CLIENTS, "connectorName": "*", "connectionViewType": "clientId"},
        "connectionName",
    ),
    "NetworkConnector": ({"connector": "networkConnectors"}, "networkConnectorName"),
    "Queue": ({"destinationType": "Queue"}, "destinationName"),
    "Topic": ({"destinationType": "Topic"}, "destinationName"),
    "TempQueue": ({"destinationType": "TempQueue"}, "destinationName"),
    "TempTopic": ({"destinationType": "TempTopic"}, "destinationName"),
}
"""By type of -Q: the keys of a view's name, and the key whose value follows `=`."""


class QueryCommand(TyperCommand):
    """Rewrites ActiveMQ's -Qtype=name and -xQtype=name as options of the usual form."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command's arguments."""
        return super().parse_args(ctx, list(_split(args)))


def _split(arguments: Iterable[str]) -> Iterable[str]:
    for each in arguments:
        for prefix, option in (("-xQ", "--xQuery"), ("-Q", "--Query")):
            if each.startswith(prefix) and len(each) > len(prefix):
                yield from (option, each[len(prefix) :])
                break
        else:
            yield each


@management_command("query")
def query(
    client: ManagementClient,
    chosen: Annotated[
        list[str] | None,
        typer.Option(
            "--Query",
            "-Q",
            metavar="TYPE=NAME",
            help=f"Select the views of a type, as in -QQueue=orders.*; may be repeated. Types: "
            f"{', '.join(_TYPES)}.",
        ),
    ] = None,
    excluded: Annotated[
        list[str] | None,
        typer.Option(
            "--xQuery", metavar="TYPE=NAME", help="Exclude the views of a type; also -xQTYPE=NAME."
        ),
    ] = None,
    objname: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEYS",
            help="Select views with these keys in their names, as in type=Broker,brokerName=*.",
        ),
    ] = None,
    xobjname: Annotated[
        list[str] | None,
        typer.Option(metavar="KEYS", help="Exclude views with these keys in their names."),
    ] = None,
    view: Annotated[
        list[str] | None,
        typer.Option(metavar="ATTRIBUTE,...", help="Print only these attributes; may be repeated."),
    ] = None,
    json: Json = False,
) -> None:
    """Print the attributes of views, one block per view; without filters, of all views.

    The exit code is 3 if no view matches.
    """
    from pyjms_broker.cli.management.blocks import print_block
    from pyjms_broker.cli.terminal import ExitCode

    attributes = [each for text in view or [] for each in text.split(",") if each]
    wanted = [*map(_by_type, chosen or []), *map(_by_keys, objname or [])]
    unwanted = [*map(_by_type, excluded or []), *map(_by_keys, xobjname or [])]
    found = _found(client, wanted, unwanted, attributes)
    for name, values in found.items():
        print_block({"objectName": name, **values} if json else values, as_json=json)
    if not found:
        typer.echo("pyjms broker query: no view matches", err=True)
        raise typer.Exit(ExitCode.FEWER)


def _found(
    client: ManagementClient, wanted: list[str], unwanted: list[str], attributes: list[str]
) -> dict[str, Attributes]:
    from pyjms_broker.management.object_name import ObjectName

    left_out = [ObjectName(each) for each in unwanted]
    found: dict[str, Attributes] = {}
    for each in wanted or ["org.apache.activemq:*"]:
        found.update(client.read_all(each, *attributes))
    return {
        name: values
        for name, values in found.items()
        if not any(each.matches(ObjectName(name)) for each in left_out)
    }


def _by_type(text: str) -> str:
    from pyjms.errors import ConfigurationException
    from pyjms_broker.cli.management.names import pattern

    type_, equals, name = text.partition("=")
    if not equals or type_ not in _TYPES:
        raise ConfigurationException(
            f"-Q{text}: there is no such view type",
            hint=f"write -QQueue=NAME; types are {', '.join(_TYPES)}",
        )
    keys, key = _TYPES[type_]
    return pattern(**keys, **{key: name or "*"})


def _by_keys(text: str) -> str:
    from pyjms.errors import ConfigurationException
    from pyjms_broker.cli.management.names import DOMAIN
    from pyjms_broker.management.errors import MalformedObjectNameException
    from pyjms_broker.management.object_name import ObjectName

    try:
        return ObjectName(text if ":" in text else f"{DOMAIN}:{text}").text
    except MalformedObjectNameException as error:
        raise ConfigurationException(str(error)) from None
