"""Options that several commands have: the connection, destinations, durations, messages.

A password on the command line would be visible in the process list and the shell's history. It is
read from the environment (PYJMS_PASSWORD), a file, or a prompt on the terminal.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeAlias

import typer

from pyjms.errors import ConfigurationException, InvalidDestinationException
from pyjms.jms.destination import Destination, named_kind, parse_destination

if TYPE_CHECKING:
    from pyjms.client.factory import ConnectionFactory


def url_option(*names: str, description: str = "The URL of the broker.") -> Any:
    """Return the option for the broker's URL, with further `names` before --url."""
    return typer.Option(*names, "--url", envvar="PYJMS_URL", metavar="URL", help=description)


UrlOption: TypeAlias = Annotated[
    str | None,
    url_option(
        description="The URL of the broker (pyjms or ActiveMQ). Default: tcp://localhost:61616."
    ),
]


def user_option(*names: str) -> Any:
    """Return the option for the user's name, with further `names` beside --user and -u."""
    return typer.Option(
        "--user",
        "-u",
        *names,
        envvar="PYJMS_USER",
        help="The user name. The password is read from PYJMS_PASSWORD, --password-file, or a "
        "prompt.",
    )


User: TypeAlias = Annotated[str | None, user_option()]


def password_option(name: str) -> Any:
    """Return the option `name` for a password on the command line, for ActiveMQ's commands."""
    return typer.Option(
        name, help="The password (ActiveMQ's option); visible to all users of this machine."
    )


PasswordFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--password-file", metavar="FILE", help="A file whose first line is the user's password."
    ),
]

_LONGEST: Final = 64 << 10


class Credentials(NamedTuple):
    """A user and a password; None: the broker's guest, or those in the URL."""

    user: str | None
    password: str | None

    def __repr__(self) -> str:
        return f"Credentials({self.user!r}, {'***' if self.password else None})"


def read_credentials(
    user: str | None, password_file: Path | None, password: str | None = None
) -> Credentials:
    """Return the user's credentials; prompt for a password that is not given.

    Args:
        user: None: no credentials.
        password_file: has the password in its first line.
        password: given on the command line, if ActiveMQ's options allow that.
    """
    if user is None:
        if password_file is not None or password is not None:
            raise ConfigurationException("A password without a user", hint="add --user")
        return Credentials(None, None)
    if password is not None:
        return Credentials(user, password)
    if password_file is not None:
        return Credentials(user, _first_line(password_file))
    given = os.environ.get("PYJMS_PASSWORD")
    if given is not None:
        return Credentials(user, given)
    if sys.stdin.isatty():
        return Credentials(user, typer.prompt(f"Password of {user}", hide_input=True, err=True))
    raise ConfigurationException(
        f"There is no password for user {user}",
        hint="set PYJMS_PASSWORD, or name a file with --password-file",
    )


def factory_for(
    url: str | None, user: str | None, password_file: Path | None, password: str | None = None
) -> ConnectionFactory:
    """Return the connection factory for a command's options; does not connect."""
    from pyjms.client.factory import ConnectionFactory

    given = read_credentials(user, password_file, password)
    return ConnectionFactory(url, user_name=given.user, password=given.password)


def default_url(url: str | None) -> str | None:
    """Return the URL of --url or of PYJMS_URL, for a command that also works without a broker."""
    return url or os.environ.get("PYJMS_URL")


def refuse_login(user: str | None, password_file: Path | None, what: str) -> None:
    """Refuse a user on the command line, where `what` needs no login."""
    if password_file is not None or (user is not None and user != os.environ.get("PYJMS_USER")):
        raise ConfigurationException(
            f"--user and --password-file are for a running broker, and {what} is a directory's",
            hint="leave them out, or name the broker with --url",
        )


def _first_line(file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as lines:
            return lines.readline(_LONGEST).rstrip("\r\n")
    except (OSError, ValueError) as error:
        raise ConfigurationException(f"--password-file: {file} cannot be read: {error}") from None


def duration_option(*names: str, text: str) -> Any:
    """Return an option for a non-negative duration; `text` is its help."""
    return typer.Option(*names, parser=_duration, metavar="DURATION", help=text)


def _duration(text: object) -> float:
    """Return the seconds of an option's text."""
    from pyjms.configuration.section import read_duration

    if isinstance(text, float):  # a default value
        return text
    try:
        found = read_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if found < 0:
        raise typer.BadParameter("the duration must not be negative")
    return found


def size_option(*names: str, text: str) -> Any:
    """Return an option for a number of bytes; `text` is its help."""
    return typer.Option(*names, parser=_size, metavar="SIZE", help=text)


def _size(text: object) -> int:
    from pyjms.configuration.section import read_size

    try:
        return read_size(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def limit_option(what: str) -> Any:
    """Return the option for the maximum number of messages; `what` is the command's verb."""
    return typer.Option("--limit", "-n", min=1, help=f"{what} at most this number of messages.")


Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Only print what would be changed, with numbers.")
]


def flag(name: str, text: str) -> Any:
    """Return an option that is on or off; `text` is its help."""
    return typer.Option(name, help=text)


DestinationArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="DESTINATION", help="queue://NAME, topic://NAME, or a queue NAME.")
]
Selector: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--selector", "-s", metavar="SELECTOR", help="Only messages that this selector matches."
    ),
]
MessageTimeout: TypeAlias = Annotated[
    float, duration_option("--timeout", text="Maximum wait for each message.")
]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON object per line, with all headers.")
]
Headers: TypeAlias = Annotated[
    bool, typer.Option("--headers", "-H", help="Print headers and properties above each body.")
]
Body: TypeAlias = Annotated[
    str | None,
    typer.Argument(metavar="BODY", help="The body. Default: --file, or the standard input."),
]
BodyFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--file",
        "-f",
        metavar="FILE",
        allow_dash=True,
        help="The file with the body; - is the standard input.",
    ),
]
Properties: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        "--property",
        metavar="NAME[:TYPE]=VALUE",
        help="A property; may be repeated. Types: string, boolean, byte, short, int, long, "
        "float, double.",
    ),
]
TimeToLive: TypeAlias = Annotated[
    float | None, duration_option("--ttl", text="Time to live, such as 5m.")
]
Delay: TypeAlias = Annotated[
    float | None,
    duration_option(text="Delivery delay; requires the broker's scheduler (schedulerSupport)."),
]


def read_destination(text: str) -> Destination:
    """Return the destination of `queue://a`, `topic://b`, or of a queue's name."""
    try:
        named_kind(text)
        return parse_destination(text)
    except InvalidDestinationException as error:
        raise ConfigurationException(str(error)) from None
