"""The interface through which the commands access a broker's management views, by name."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from inspect import Signature, signature
from typing import Annotated, Any, Concatenate, Final, Protocol, TypeAlias

import typer

from pyjms.cli.options import PasswordFile, password_option, read_credentials, user_option
from pyjms.errors import ConfigurationException, JMSException
from pyjms_broker.management.object_name import ObjectName, encoded_part

__all__ = [
    "DEFAULT_URL",
    "DOMAIN",
    "Attributes",
    "Json",
    "ManagementClient",
    "ManagementUrl",
    "ManagementUser",
    "Password",
    "PasswordFile",
    "Yes",
    "broker_of",
    "brokers",
    "find_destinations",
    "management_command",
    "pattern",
]

DEFAULT_URL: Final = "http://localhost:8161/api/jolokia"
"""Default URL of a broker's web server."""

Attributes: TypeAlias = Mapping[str, object]


class ManagementClient(Protocol):
    """Access to the management views of one broker. All methods block.

    All raise JMSException if the broker cannot be reached, refuses the login or the request, or has
    no such view, attribute or operation.
    """

    @property
    def url(self) -> str:
        """The broker's URL, for output and errors."""

    def search(self, pattern: str) -> list[str]:
        """Return the sorted names of the views that match a pattern."""

    def read(self, name: str, *attributes: str) -> Attributes:
        """Return the named attributes of a view; all if none is named."""

    def read_all(self, pattern: str, *attributes: str) -> dict[str, Attributes]:
        """Return attributes by view name for all views that match a pattern; {} if none does."""

    def write(self, name: str, attribute: str, value: object) -> object:
        """Set an attribute; return its previous value."""

    def execute(self, name: str, operation: str, *arguments: object) -> object:
        """Invoke an operation; return its result once its changes are stored."""


# --- The options of commands for a running broker, and the client created from them.

ManagementUrl: TypeAlias = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="PYJMS_MANAGEMENT_URL",
        metavar="URL",
        help="The Jolokia URL of the broker (pyjms or ActiveMQ).",
    ),
]
ManagementUser: TypeAlias = Annotated[str | None, user_option("--jmxuser")]
Password: TypeAlias = Annotated[str | None, password_option("--jmxpassword")]
JmxUrl: TypeAlias = Annotated[
    str | None, typer.Option("--jmxurl", hidden=True, metavar="URL", help="Of ActiveMQ.")
]
JmxLocal: TypeAlias = Annotated[bool, typer.Option("--jmxlocal", hidden=True)]
Pid: TypeAlias = Annotated[str | None, typer.Option("--pid", hidden=True)]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


_Command: TypeAlias = Callable[Concatenate[ManagementClient, ...], None]


def management_command(name: str) -> Callable[[_Command], Callable[..., None]]:
    """Make a function that takes a client and options the command `name` for a running broker.

    The command also gets the options that select the broker. Known errors are printed as one line.
    """

    def decorate(command: _Command) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**options: Any) -> None:
            from pyjms_broker.cli.terminal import one_line_errors

            with one_line_errors(name):
                client = _connect(**{each: options.pop(each) for each in connecting})
                command(client, **options)

        connecting = signature(_connect, eval_str=True).parameters
        _, *own = signature(command, eval_str=True).parameters.values()
        every = Signature([*own, *connecting.values()])
        run.__signature__ = every  # type: ignore[attr-defined]  # typer reads the options from it
        return run

    return decorate


def _web_url(jmx_url: str) -> str:
    """Guess the URL of the broker's web server from a JMX URL."""
    host = re.search(r"//([\w.-]+|\[[\da-f:]+\]):\d+/", jmx_url)
    return f"http://{host[1]}:8161" if host else DEFAULT_URL


def _connect(
    url: ManagementUrl = DEFAULT_URL,
    user: ManagementUser = None,
    password_file: PasswordFile = None,
    password: Password = None,
    jmx_url: JmxUrl = None,
    jmx_local: JmxLocal = False,
    pid: Pid = None,
) -> ManagementClient:
    """Create the client for the options; does not connect.

    Raises:
        ConfigurationException: the URL is invalid, the password is missing, or an ActiveMQ option
            for Java processes (JMX) is given.
    """
    given = {"--jmxurl": jmx_url, "--jmxlocal": jmx_local, "--pid": pid}
    for name in (name for name, value in given.items() if value):
        raise ConfigurationException(
            f"{name}: JMX is available to Java programs only",
            hint=f"name the broker's web server (Jolokia): --url {_web_url(jmx_url or '')}",
        )
    from pyjms_broker.cli.management.jolokia import JolokiaClient

    return JolokiaClient(url, read_credentials(user, password_file, password))


# --- Find the views of brokers, and of destinations by name or pattern.

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
