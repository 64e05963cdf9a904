"""`pyjms broker list`, `stop`, `restart`, `query`, `dstat`, `bstat` and `top`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import partial
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand
from typer.models import CommandInfo

from pyjms.cli.options import PasswordFile, duration_option, read_credentials
from pyjms.cli.terminal import ExitCode, json_line, one_line_errors, safe_text, table
from pyjms.errors import ConfigurationException, JMSException
from pyjms.jms.destination import ADVISORY_PREFIX
from pyjms.runtime.distribution import install_command
from pyjms_broker.cli.management.client import (
    DEFAULT_URL,
    DOMAIN,
    Attributes,
    Ca,
    JolokiaClient,
    Json,
    ManagementUrl,
    ManagementUser,
    Password,
    broker_of,
    brokers,
    management_command,
    number,
    pattern,
)
from pyjms_broker.management.errors import MalformedObjectNameException
from pyjms_broker.management.object_name import ObjectName

_POLL_INTERVAL: Final = 0.1
"""Seconds between two requests while a command waits."""


@management_command("list")
def list_(client: JolokiaClient, json: Json = False) -> None:
    """List the brokers at a URL: `brokerName = NAME`."""
    found = brokers(client, "BrokerName")
    for name in found:
        if json:
            json_line({"brokerName": broker_of(name)})
        else:
            typer.echo(f"brokerName = {broker_of(name)}")


@management_command("why")
def why(
    client: JolokiaClient,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A queue or topic, CLIENT:SUBSCRIPTION of a durable subscription, or the id of a"
            " consumer or message.",
        ),
    ],
    json: Json = False,
) -> None:
    """Show why nothing is delivered of a queue or a message, or to a consumer, and what to do.

    The exit code is 1 if messages wait for a reason that needs an operator (no consumer is one).
    """
    is_serious = False
    for broker in brokers(client, "BrokerName"):
        found = client.execute(broker, "why", name)
        if json:
            json_line(found)
        assert isinstance(found, Mapping), "the operation returns a table"
        rows = found["findings"]
        is_serious |= any(each["serious"] for each in rows)
        if not json:
            _print_why(found, rows)
    if is_serious:
        raise typer.Exit(ExitCode.FAILED)


def _print_why(found: Mapping[str, object], rows: list[Mapping[str, object]]) -> None:
    typer.echo(f"{safe_text(found['subject'])}: {safe_text(found['state'])}")
    for each in rows:
        typer.echo(f"- {each['title']}: {safe_text(each['text'])}")
        typer.echo(f"  What to do: {safe_text(each['hint'])}")
    if not rows:
        typer.echo("Nothing keeps messages from being delivered.")


@management_command("trace")
def trace(
    client: JolokiaClient,
    message_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="The id of the message.")
    ] = None,
    correlation_id: Annotated[
        str | None, typer.Option("--correlation-id", metavar="ID", help="Messages with this id.")
    ] = None,
    json: Json = False,
) -> None:
    """Print what happened to a message, or to those with a correlation id, from the trail.

    The broker needs the plug-in message_trail, which has the trail of chosen destinations. The exit
    code is 3 if there is nothing about it.
    """
    if (message_id is None) == (correlation_id is None):
        raise ConfigurationException("Name a message: ID, or --correlation-id ID")
    trails = client.search(pattern(service="MessageTrail"))
    if not trails:
        raise JMSException(
            f"{client.url} has no trail", hint="add the plug-in message_trail to broker.yaml"
        )
    operation = "trace" if correlation_id is None else "traceCorrelation"
    rows: list[dict[str, str]] = []
    for each in trails:
        found = client.execute(each, operation, message_id or correlation_id)
        rows += found if isinstance(found, list) else []
    if json:
        for row in rows:
            json_line(row)
    else:
        _print_trace(rows)
    if not rows:
        typer.echo("pyjms broker trace: nothing is known about it", err=True)
        raise typer.Exit(ExitCode.FEWER)


def _print_trace(rows: list[dict[str, str]]) -> None:
    from datetime import UTC, datetime

    heads = ("time (UTC)", "event", "destination", "message", "details", "trace")
    keys = ("event", "destination", "id", "details", "trace")
    lines = []
    for row in rows:
        at = datetime.fromtimestamp(int(row["time"]) / 1000, UTC)
        lines.append(
            (f"{at:%Y-%m-%d %H:%M:%S}.{int(row['time']) % 1000:03}", *(row[k] for k in keys))
        )
    table(heads, lines)


Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="BROKER...", help="Broker names. Default: the only broker at the URL."),
]
All = Annotated[bool, typer.Option("--all", help="All brokers at the URL.")]
Wait = Annotated[
    float, duration_option("--timeout", text="Maximum wait for the broker to stop; 0: do not wait.")
]


@management_command("stop")
def stop(
    client: JolokiaClient, names: Names = None, all_: All = False, timeout: Wait = 30.0
) -> None:
    """Stop a running broker, and wait until it has stopped.

    The broker closes its connectors, gives clients time to read the commands queued for them, and
    closes its store. The exit code is 1 if it does not stop within --timeout.
    """
    for name in _find_chosen(client, names, all_=all_):
        _execute(client, name, "stop", "stopped", timeout)


@management_command("restart")
def restart(
    client: JolokiaClient, names: Names = None, all_: All = False, timeout: Wait = 30.0
) -> None:
    """Restart a running broker, and wait until it is running again.

    The broker refuses if its configuration does not allow it (restart_allowed).
    """
    for name in _find_chosen(client, names, all_=all_):
        _execute(client, name, "restart", "restarted", timeout)


def _find_chosen(client: JolokiaClient, names: list[str] | None, *, all_: bool) -> list[str]:
    """Return the names of the views of the chosen brokers."""
    found = list(brokers(client, "BrokerName"))
    if all_:
        return found
    by_name = {broker_of(name): name for name in found}
    if not names and len(found) > 1:
        raise ConfigurationException(
            f"{client.url} has several brokers", hint=f"name them: {', '.join(by_name)}, or --all"
        )
    missing = [name for name in names or [] if name not in by_name]
    if missing:
        raise ConfigurationException(
            f"{client.url} has no broker {missing[0]}", hint=f"there is {', '.join(by_name)}"
        )
    return [by_name[name] for name in names or by_name]


def _execute(client: JolokiaClient, name: str, operation: str, done: str, timeout: float) -> None:
    import anyio

    from pyjms.runtime import clock as _clock

    since = _clock.now()
    client.execute(name, operation)
    if timeout == 0:
        typer.echo(f"Broker {broker_of(name)} was asked to be {done}")
        return
    wait = partial(_wait_until_changed, running=done == "restarted")
    if not anyio.run(wait, client, name, since, timeout):
        raise JMSException(
            f"Broker {broker_of(name)} has not {done} within {timeout:g} s",
            hint="its log says why; use --timeout to wait longer",
        )
    typer.echo(f"Broker {broker_of(name)} has {done}")


async def _wait_until_changed(
    client: JolokiaClient, name: str, since: float, timeout: float, *, running: bool
) -> bool:
    """Wait until a broker has stopped or, if `running`, restarted; False: not within the time.

    `since` is the time before the request (`_clock.now`).
    """
    import anyio.to_thread

    from pyjms.runtime import clock as _clock

    changed = False
    with _clock.timeout(timeout):
        while not changed:
            found = await anyio.to_thread.run_sync(
                partial(_uptime, client, name), abandon_on_cancel=True
            )
            if running:  # an uptime that began before the request belongs to the previous run
                changed = found is not None and found <= _clock.now() - since
            else:
                changed = found is None
            if not changed:
                await _clock.sleep(_POLL_INTERVAL)
    return changed


def _uptime(client: JolokiaClient, name: str) -> float | None:
    """Return the broker's uptime in seconds; None if it is not running."""
    try:
        found = client.read_all(name, "UptimeMillis").get(name, {}).get("UptimeMillis")
    except JMSException:  # nothing listens, or it is starting or stopping
        return None
    return found / 1000 if isinstance(found, int) else None


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


query_command: Final = CommandInfo("query", cls=QueryCommand, callback=query)


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


class SortBy(StrEnum):
    """The orders of `dstat`."""

    NAME = "name"
    SIZE = "size"
    PRODUCERS = "producers"
    CONSUMERS = "consumers"
    ENQUEUED = "enqueued"
    DEQUEUED = "dequeued"
    MEMORY = "memory"
    IN_FLIGHT = "in-flight"


_SORTED_BY: Final = {
    SortBy.SIZE: "QueueSize",
    SortBy.PRODUCERS: "ProducerCount",
    SortBy.CONSUMERS: "ConsumerCount",
    SortBy.ENQUEUED: "EnqueueCount",
    SortBy.DEQUEUED: "DequeueCount",
    SortBy.MEMORY: "MemoryPercentUsage",
    SortBy.IN_FLIGHT: "InFlightCount",
}
_NAME_WIDTH: Final = 50
_WIDTH: Final = 12
_KINDS: Final = {
    Kind.QUEUES: ("Queue",),
    Kind.TOPICS: ("Topic",),
    Kind.ALL: ("Queue", "Topic"),
}
_BROKER: Final = (
    *("BrokerName", "TotalEnqueueCount", "TotalDequeueCount", "TotalMessageCount"),
    *("TotalConsumerCount", "Uptime"),
)
_DESTINATION: Final = ("Name", "EnqueueCount", "DequeueCount", "ConsumerCount", "DispatchCount")


@management_command("dstat")
def dstat(
    client: JolokiaClient,
    kind: Annotated[
        Kind, typer.Argument(metavar="[queues|topics]", help="Only queues, or only topics.")
    ] = Kind.ALL,
    sort: Annotated[
        SortBy, typer.Option(help="The order of the rows; numbers are in descending order.")
    ] = SortBy.NAME,
    filter_: Annotated[
        str | None,
        typer.Option(
            "--filter", metavar="NAME", help="A part of the name, or a pattern with * and ?."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Print a table of the destinations: sizes, consumers, counters, memory.

    Advisory topics are not listed.
    """
    from pyjms_broker.management.view_attributes import DSTAT

    columns = [name for name in DSTAT if name != "InFlightCount" or kind is Kind.QUEUES]
    rows = [
        (type_, values)
        for type_ in _KINDS[kind]
        for values in _destinations(client, type_, *DSTAT)
        if filter_ is None or _is_selected(str(values.get("Name")), filter_)
    ]
    if sort is not SortBy.NAME:
        rows.sort(key=lambda row: -number(row[1], _SORTED_BY[sort]))
    if json:
        for type_, values in rows:
            json_line({"Type": type_, **values})
        return
    typer.echo(_line("Name", [DSTAT[each] for each in columns]))
    for _, values in rows:
        typer.echo(_line(values.get("Name"), [values.get(each) for each in columns]))


def _is_selected(name: str, wanted: str) -> bool:
    if "*" in wanted or "?" in wanted:
        return fnmatchcase(name, wanted)
    return wanted.lower() in name.lower()


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


_PATIENCE: Final = 10.0
"""Response timeout in seconds."""


def top(
    interval: Annotated[
        float, duration_option(text="Time between two readings, at least 200ms.")
    ] = 2.0,
    url: ManagementUrl = DEFAULT_URL,
    user: ManagementUser = None,
    password_file: PasswordFile = None,
    password: Password = None,
    ca: Ca = None,
) -> None:
    """Show the destinations of a running broker, live: sizes, rates, consumers. `q` quits.

    Keys: `s` sorts by the next column, `r` reverses the order, `/` filters by name, `t` shows only
    queues or topics, `space` pauses and resumes, `enter` shows the consumers of the destination.
    Advisory topics are not shown.
    """
    with one_line_errors("broker top"):
        if interval < 0.2:
            raise ConfigurationException(
                f"--interval {interval:g}s: the minimum is 200ms",
                hint="write --interval 1s",
            )
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise ConfigurationException(
                "top needs a terminal", hint="`pyjms broker dstat` prints its table once"
            )
        try:
            from pyjms_broker.cli.management.top import Sampler, TopApp
        except ImportError as error:
            raise ConfigurationException(
                "top needs the package textual", hint=install_command("tui")
            ) from error
        credentials = read_credentials(user, password_file, password)
        sampler = Sampler(JolokiaClient(url, credentials, timeout=_PATIENCE, ca=ca))
        first = sampler.sample()  # report errors before the screen is taken over
        TopApp(sampler, first, interval).run()
