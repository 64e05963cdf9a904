"""`pyjms broker dstat` and `bstat`: print the counters of destinations and of the broker."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import typer

from pyjms.jms.destination import ADVISORY_PREFIX
from pyjms_broker.cli.management.client import Attributes, ManagementClient
from pyjms_broker.cli.management.options import Json, management_command

__all__ = ["COLUMNS", "bstat", "dstat"]


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
_TYPES: Final = {Kind.QUEUES: ("Queue",), Kind.TOPICS: ("Topic",), Kind.ALL: ("Queue", "Topic")}
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
    client: ManagementClient,
    kind: Annotated[
        Kind, typer.Argument(metavar="[queues|topics]", help="Only queues, or only topics.")
    ] = Kind.ALL,
    json: Json = False,
) -> None:
    """Print a table of the destinations: sizes, consumers, counters, memory.

    Advisory topics are not listed.
    """
    from pyjms_broker.cli.terminal import json_line

    columns = COLUMNS if kind is Kind.QUEUES else COLUMNS[:-1]
    rows = [
        (type_, values)
        for type_ in _TYPES[kind]
        for values in _destinations(client, type_, *(each for _, each in COLUMNS))
    ]
    if json:
        for type_, values in rows:
            json_line({"Type": type_, **values})
        return
    typer.echo(_line("Name", [title for title, _ in columns]))
    for _, values in rows:
        typer.echo(_line(values.get("Name"), [values.get(each) for _, each in columns]))


def _destinations(client: ManagementClient, type_: str, *attributes: str) -> list[Attributes]:
    from pyjms_broker.cli.management.names import pattern

    found = client.read_all(
        pattern(destinationType=type_, destinationName="*"), "Name", *attributes
    ).values()
    named = [each for each in found if not str(each.get("Name")).startswith(ADVISORY_PREFIX)]
    return sorted(named, key=lambda each: str(each.get("Name")))


def _line(name: object, cells: list[object] | list[str]) -> str:
    """Return a line with ActiveMQ's column widths; a long name is followed by a space, not cut."""
    from pyjms_broker.cli.terminal import safe_text

    return f"{safe_text(name):<{_NAME_WIDTH}}" + "".join(
        f"  {safe_text('-' if cell is None else cell):>{_WIDTH - 2}}" for cell in cells
    )


@management_command("bstat")
def bstat(
    client: ManagementClient,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="BROKER...", help="Names of brokers. Default: all."),
    ] = None,
    json: Json = False,
) -> None:
    """Print the key figures of the broker, its connectors, queues and topics, in blocks."""
    from pyjms_broker.cli.management.blocks import print_block
    from pyjms_broker.cli.management.names import broker_of, brokers, pattern
    from pyjms_broker.management.object_name import ObjectName

    chosen = [
        name for name in brokers(client, "BrokerName") if not names or broker_of(name) in names
    ]
    _refuse_unknown(client, names or [], [broker_of(name) for name in chosen])
    for name in chosen:
        broker = broker_of(name)
        print_block(client.read(name, *_BROKER), as_json=json)
        connectors = pattern(brokerName=broker, connector="clientConnectors", connectorName="*")
        for connector in client.search(connectors):
            print_block(
                {"connectorName": ObjectName(connector).keys["connectorName"]}, as_json=json
            )
        for type_ in ("Queue", "Topic"):
            wanted = pattern(brokerName=broker, destinationType=type_, destinationName="*")
            for where, values in client.read_all(wanted, *_DESTINATION).items():
                keys = ObjectName(where).keys
                print_block(
                    {
                        **values,
                        "destinationName": keys["destinationName"],
                        "destinationType": type_,
                    },
                    as_json=json,
                )


def _refuse_unknown(client: ManagementClient, names: list[str], found: list[str]) -> None:
    from pyjms.errors import JMSException

    missing = [name for name in names if name not in found]
    if missing:
        raise JMSException(
            f"{client.url} has no broker {missing[0]}", hint="`pyjms broker list` lists them"
        )
