"""`pyjms broker create`: create a directory with everything that a broker needs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pyjms.errors import ConfigurationException

if TYPE_CHECKING:
    from pyjms_broker.conversion import Conversion

__all__ = ["create", "create_instance"]

_PATH_CHARACTERS: Final = re.compile(r"[\w./+-]+")
_FORBIDDEN_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9._-]")
_FILES: Final = ("broker.yaml", "groups.properties", "pyjms-broker.service")
_USERS: Final = """# A line user=password, or user=HASH of `pyjms broker passwd`, for each user.
admin={password}
"""


def create(
    path: Annotated[Path, typer.Argument(help="Directory to create.")],
    force: Annotated[
        bool, typer.Option("--force", help="Replace the files of a directory that is not empty.")
    ] = False,
    amqconf: Annotated[
        Path | None,
        typer.Option(help="ActiveMQ's activemq.xml, to be converted into the configuration."),
    ] = None,
) -> None:
    """Create a directory with the configuration of a broker, its users, and a start script.

    Prints the password of the user admin, which is not stored: the file has only its hash. With
    --amqconf the users are those of that file; settings that cannot be converted are listed, and
    the exit code is then 1.
    """
    from pyjms_broker.cli.terminal import ExitCode, one_line_errors

    where = path.absolute()
    with one_line_errors("create"):
        conversion = None if amqconf is None else _converted(amqconf, where)
        text = None if conversion is None else conversion.yaml()
        password = create_instance(path, force=force, configuration=text)
    for finding in () if conversion is None else conversion.findings:
        typer.echo(str(finding), err=True)
    typer.echo(f"created {where}; start it: {where}/bin/start.sh")
    if conversion is None:
        typer.echo(f"the password of the user admin is {password}")
    elif conversion.unsupported:
        raise typer.Exit(ExitCode.FAILED)


def _converted(source: Path, path: Path) -> Conversion:
    from pyjms_broker.conversion import convert_activemq_xml

    conversion = convert_activemq_xml(source, {"activemq.base": str(path)})
    conversion.settings()
    return conversion


def create_instance(path: Path, *, force: bool = False, configuration: str | None = None) -> str:
    """Create the directory of a broker; blocking. Return the password of its user admin.

    `force` replaces existing files, except the broker's data. `configuration` is the text of
    broker.yaml; by default, clients need a user and a password, and the files of users are
    created as well.

    Raises:
        ConfigurationException: the directory is not empty and `force` is not set, or its path
            has characters that would have to be quoted in configuration files.
        OSError: it cannot be written.
    """
    import getpass
    import secrets
    import shlex
    from importlib.util import find_spec

    from pyjms_broker.cli.private_output import write_private
    from pyjms_broker.security.passwords import hash_password
    from pyjms_broker.store.private_files import make_private_directory

    path = path.absolute()
    if _PATH_CHARACTERS.fullmatch(str(path)) is None:
        raise ConfigurationException(
            f"{str(path)!r} has characters other than letters, digits and ./_+-",
            hint="choose another directory",
        )
    if path.is_dir() and any(path.iterdir()) and not force:
        raise ConfigurationException(
            f"{path} is not empty", hint="choose another directory, or --force"
        )
    for directory in (path, path / "bin", path / "data"):
        make_private_directory(directory)
    values = {
        "NAME": _FORBIDDEN_IN_NAMES.sub("_", path.name) or "localhost",
        "PATH": str(path),
        "PYTHON": sys.executable,
        "SHELL_PATH": shlex.quote(str(path)),
        "SHELL_PYTHON": shlex.quote(sys.executable),
        "USER": getpass.getuser(),
        "WEB": "" if find_spec("uvicorn") else "# ",
    }
    texts = {name: _filled(name, values) for name in _FILES}
    if configuration is not None:
        texts["broker.yaml"] = configuration
        del texts["groups.properties"]
    for name, text in texts.items():
        write_private(path / name, text, replace=force)
    script = _filled("start.sh", values)
    write_private(path / "bin" / "start.sh", script, replace=force, executable=True)
    password = secrets.token_urlsafe(16)
    if configuration is None:
        users = _USERS.format(password=hash_password(password))
        write_private(path / "users.properties", users, replace=force)
    return password


def _filled(name: str, values: dict[str, str]) -> str:
    from importlib.resources import files

    text = (files("pyjms_broker.cli") / "templates" / name).read_text(encoding="utf-8")
    return re.sub("@([A-Z_]+)@", lambda match: values[match[1]], text)
