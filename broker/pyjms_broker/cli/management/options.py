"""The options of commands for a running broker, and the client created from them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from inspect import Signature, signature
from typing import Annotated, Any, Concatenate, TypeAlias

import typer

from pyjms.cli.credentials import PasswordFile, password_option, read_credentials, user_option
from pyjms.errors import ConfigurationException
from pyjms_broker.cli.management.client import DEFAULT_URL, ManagementClient

__all__ = [
    "DEFAULT_URL",
    "Json",
    "ManagementUrl",
    "ManagementUser",
    "Password",
    "PasswordFile",
    "Yes",
    "management_command",
]

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
