"""The options with which the commands find a running broker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from pyjms.cli.credentials import PasswordFile, read_credentials

if TYPE_CHECKING:
    from pyjms_broker.cli.management.jolokia import JolokiaClient

__all__ = [
    "DEFAULT_URL",
    "Json",
    "ManagementUrl",
    "ManagementUser",
    "Password",
    "PasswordFile",
    "Yes",
    "connect",
]

DEFAULT_URL: Final = "http://localhost:8161/api/jolokia"

ManagementUrl: TypeAlias = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="PYJMS_MANAGEMENT_URL",
        metavar="URL",
        help="The broker's web server (Jolokia), also ActiveMQ's.",
    ),
]
ManagementUser: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--user",
        "-u",
        "--jmxuser",
        envvar="PYJMS_USER",
        help="The user. The password is PYJMS_PASSWORD, in --password-file, or asked for.",
    ),
]
Password: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--jmxpassword",
        help="The password, as with ActiveMQ; everybody on this machine can see it.",
    ),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def connect(
    url: str, user: str | None, password: str | None, password_file: Path | None
) -> JolokiaClient:
    """Return the client for the options; does not connect.

    Raises:
        ConfigurationException: the URL cannot be read, or there is no password.
    """
    from pyjms_broker.cli.management.jolokia import JolokiaClient

    return JolokiaClient(url, read_credentials(user, password_file, password))
