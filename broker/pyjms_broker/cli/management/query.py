"""`pyjms broker query`, `dstat` and `bstat`: print attributes of views, and counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

from pyjms.cli.terminal import ExitCode, json_line, safe_text
from pyjms.errors import ConfigurationException, JMSException
from pyjms.jms.destination import ADVISORY_PREFIX
from pyjms_broker.cli.management.client import (
    DOMAIN,
    Attributes,
    JolokiaClient,
    Json,
    broker_of,
    brokers,
    management_command,
    pattern,
)
from pyjms_broker.management.errors import MalformedObjectNameException
from pyjms_broker.management.object_name import ObjectName

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
    client: JolokiaClient,
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
    attributes = [each for text in view or [] for each in text.split(",") if each]
    wanted = [*map(_by_type, chosen or []), *map(_by_keys, objname or [])]
    unwanted = [*map(_by_type, excluded or []), *map(_by_keys, xobjname or [])]
    found = _find_views(client, wanted, unwanted, attributes)
    for name, values in found.items():
        _print_block({"objectName": name, **values} if json else values, as_json=json)
    if not found:
        typer.echo("pyjms broker query: no view matches", err=True)
        raise typer.Exit(ExitCode.FEWER)


def _find_views(
    client: JolokiaClient, wanted: list[str], unwanted: list[str], attributes: list[str]
) -> dict[str, Attributes]:

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

    type_, equals, name = text.partition("=")
    if not equals or type_ not in _TYPES:
        raise ConfigurationException(
            f"-Q{text}: there is no such view type",
            hint=f"write -QQueue=NAME; types are {', '.join(_TYPES)}",
        )
    keys, key = _TYPES[type_]
    return pattern(**keys, **{key: name or "*"})


def _by_keys(text: str) -> str:

    try:
        return ObjectName(text if ":" in text else f"{DOMAIN}:{text}").text
    except MalformedObjectNameException as error:
        raise ConfigurationException(str(error)) from None


class Kind(StrEnum):
    """The kinds of destinations that `dstat` lists."""

    QUEUES = "queues"
    TOPICS = "topics"
    ALL = "all"


COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    ("Queue Size", "QueueSize"),
    ("Producer #", "ProducerCount"),
    ("Consumer #", "ConsumerCount"),
    ("Enqueue #", "EnqueueCount"),
    ("Dequeue #", "DequeueCount"),
    ("Forward #", "ForwardCount"),
    ("Memory %", "MemoryPercentUsage"),
    ("Inflight #", "InFlightCount"),
)
"""The columns of `dstat`, as in ActiveMQ, with their attributes."""

_NAME_WIDTH: Final = 50
_WIDTH: Final = 12
_STATISTICS_TYPES: Final = {
    Kind.QUEUES: ("Queue",),
    Kind.TOPICS: ("Topic",),
    Kind.ALL: ("Queue", "Topic"),
}
_BROKER: Final = (
    "BrokerName",
    "TotalEnqueueCount",
    "TotalDequeueCount",
    "TotalMessageCount",
    "TotalConsumerCount",
    "Uptime",
)
_DESTINATION: Final = ("Name", "EnqueueCount", "DequeueCount", "ConsumerCount", "DispatchCount")


@management_command("dstat")
def dstat(
    client: JolokiaClient,
    kind: Annotated[
        Kind, typer.Argument(metavar="[queues|topics]", help="Only queues, or only topics.")
    ] = Kind.ALL,
    json: Json = False,
) -> None:
    """Print a table of the destinations: sizes, consumers, counters, memory.

    Advisory topics are not listed.
    """
    columns = COLUMNS if kind is Kind.QUEUES else COLUMNS[:-1]
    rows = [
        (type_, values)
        for type_ in _STATISTICS_TYPES[kind]
        for values in _destinations(client, type_, *(each for _, each in COLUMNS))
    ]
    if json:
        for type_, values in rows:
            json_line({"Type": type_, **values})
        return
    typer.echo(_line("Name", [title for title, _ in columns]))
    for _, values in rows:
        typer.echo(_line(values.get("Name"), [values.get(each) for _, each in columns]))


def _destinations(client: JolokiaClient, type_: str, *attributes: str) -> list[Attributes]:

    found = client.read_all(
        pattern(destinationType=type_, destinationName="*"), "Name", *attributes
    ).values()
    named = [each for each in found if not str(each.get("Name")).startswith(ADVISORY_PREFIX)]
    return sorted(named, key=lambda each: str(each.get("Name")))


def _line(name: object, cells: list[object] | list[str]) -> str:
    """Return a line with ActiveMQ's column widths; a long name is followed by a space, not cut."""
    return f"{safe_text(name):<{_NAME_WIDTH}}" + "".join(
        f"  {safe_text('-' if cell is None else cell):>{_WIDTH - 2}}" for cell in cells
    )


@management_command("bstat")
def bstat(
    client: JolokiaClient,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="BROKER...", help="Names of brokers. Default: all."),
    ] = None,
    json: Json = False,
) -> None:
    """Print the key figures of the broker, its connectors, queues and topics, in blocks."""
    chosen = [
        name for name in brokers(client, "BrokerName") if not names or broker_of(name) in names
    ]
    _refuse_unknown(client, names or [], [broker_of(name) for name in chosen])
    for name in chosen:
        broker = broker_of(name)
        _print_block(client.read(name, *_BROKER), as_json=json)
        connectors = pattern(brokerName=broker, connector="clientConnectors", connectorName="*")
        for connector in client.search(connectors):
            _print_block(
                {"connectorName": ObjectName(connector).keys["connectorName"]}, as_json=json
            )
        for type_ in ("Queue", "Topic"):
            wanted = pattern(brokerName=broker, destinationType=type_, destinationName="*")
            for where, values in client.read_all(wanted, *_DESTINATION).items():
                keys = ObjectName(where).keys
                _print_block(
                    {
                        **values,
                        "destinationName": keys["destinationName"],
                        "destinationType": type_,
                    },
                    as_json=json,
                )


def _refuse_unknown(client: JolokiaClient, names: list[str], found: list[str]) -> None:

    missing = [name for name in names if name not in found]
    if missing:
        raise JMSException(
            f"{client.url} has no broker {missing[0]}", hint="`pyjms broker list` lists them"
        )


def _print_block(values: Mapping[str, object], *, as_json: bool) -> None:
    """Print an object: as one JSON object, or as lines followed by a blank line."""
    if as_json:
        json_line({name: _plain(value) for name, value in values.items()})
        return
    for name, value in values.items():
        typer.echo(f"{safe_text(name)} = {_text(_plain(value))}")
    typer.echo("")


def _plain(value: object) -> object:
    """Return a value with Jolokia's object-name wrappers removed."""
    if isinstance(value, Mapping):
        if value.keys() == {"objectName"}:
            return value["objectName"]
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{safe_text(key)}={_text(each)}' for key, each in value.items())}}}"
    return safe_text(value)
