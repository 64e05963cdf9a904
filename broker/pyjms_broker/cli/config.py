"""The configuration's commands: `pyjms broker config`, `create`, `passwd`, `encrypt` and `decrypt`.

Files that may hold passwords are written so that only their owner may read them.
"""

from __future__ import annotations

import getpass
import importlib.util
import os
import re
import secrets
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from pyjms.cli.terminal import ExitCode, one_line_errors, plural
from pyjms.configuration.encryption import Algorithm
from pyjms.errors import ConfigurationException
from pyjms_broker.cli.main import Define, Properties

if TYPE_CHECKING:
    from pyjms_broker.conversion import Conversion

app = typer.Typer(
    name="config",
    help="Show the keys of broker.yaml, check it, and convert ActiveMQ's.",
    no_args_is_help=True,
)


@app.command()
def example() -> None:
    """Print a broker.yaml with every key, its default and its explanation."""
    from pyjms.settings.loading import without_schema_line
    from pyjms_broker.settings.reference import broker_reference

    typer.echo(without_schema_line(broker_reference()), nl=False)


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(help="ActiveMQ's configuration, activemq.xml.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write. Default: standard output.")
    ] = None,
    define: Define = None,
    properties: Properties = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file if it exists already.")
    ] = False,
) -> None:
    """Convert ActiveMQ's activemq.xml into broker.yaml.

    Settings without a counterpart are reported on standard error, with file, line, element, reason
    and remedy, and as comments in the result.

    Exit code 0: everything was converted; 1: something was not; 2: the file cannot be converted.
    """
    from pyjms_broker.conversion import convert_activemq_xml

    with one_line_errors("broker config convert"):
        conversion = convert_activemq_xml(source, given_properties(define, properties))
        text = conversion.yaml()
        conversion.settings()
        if output is not None:
            _write(output, text, force)
    if output is None:
        typer.echo(text, nl=False)
    for finding in conversion.findings:
        typer.echo(str(finding), err=True)
    lost = len(conversion.unsupported)
    if lost:
        typer.echo(f"{plural(lost, 'setting')} could not be converted", err=True)
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def check(
    file: Annotated[
        Path, typer.Argument(help="broker.yaml, or ActiveMQ's activemq.xml.", metavar="FILE")
    ],
    define: Define = None,
    properties: Properties = None,
) -> None:
    """Check the configuration of a broker without starting it.

    Files that it names, such as certificates, are not read, and no port is opened. The exit code
    is 2 if something is wrong; all problems are told, with file and line.
    """
    from pyjms_broker.cli.start import Source, make_service

    with one_line_errors("broker config check"):
        if file.suffix == ".xml":
            source = Source(uri=f"xbean:{file}", define=define, properties=properties)
        else:
            if define or properties:
                raise ConfigurationException(
                    "-D and --properties are for activemq.xml",
                    hint="placeholders of broker.yaml are environment variables",
                )
            source = Source(config=file)
        service = make_service(source)
    uris = ", ".join(str(each.uri) for each in service.connectors) or "no connector"
    typer.echo(f"{file} is right: broker {service.broker_name} at {uris}")


def given_properties(define: list[str] | None, files: list[Path] | None) -> dict[str, str]:
    """Return the values of `--properties` and `-D`."""
    from pyjms.configuration.properties_file import read_properties

    given: dict[str, str] = {}
    for file in files or ():
        given.update(read_properties(file))
    for definition in define or ():
        name, mark, value = definition.partition("=")
        if not name or not mark:
            raise ConfigurationException(
                f"-D {name} is not NAME=VALUE", hint="write -D activemq.data=/var/lib/activemq"
            )
        given[name] = value
    return given


def _write(path: Path, text: str, force: bool) -> None:
    try:
        write_private(path, text, replace=force)
    except FileExistsError:
        raise ConfigurationException(
            f"{path} exists already", hint="choose another name, or replace it with --force"
        ) from None


_PRIVATE: Final = 0o600
_EXECUTABLE: Final = 0o700


def write_private(
    path: Path, text: str, *, replace: bool = False, executable: bool = False
) -> None:
    """Write a file with mode 0600, or 0700 if it is executable; blocking."""
    mode = _EXECUTABLE if executable else _PRIVATE
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if replace else os.O_EXCL)
    handle = os.open(path, flags, mode)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        os.fchmod(handle, mode)  # an existing file kept its mode
        file.write(text)


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
    where = path.absolute()
    with one_line_errors("broker create"):
        conversion = None if amqconf is None else _convert(amqconf, where)
        text = None if conversion is None else conversion.yaml()
        password = create_instance(path, force=force, configuration=text)
    for finding in () if conversion is None else conversion.findings:
        typer.echo(str(finding), err=True)
    typer.echo(f"created {where}; start it: {where}/bin/start.sh")
    if conversion is None:
        typer.echo(f"the password of the user admin is {password}")
    elif conversion.unsupported:
        raise typer.Exit(ExitCode.FAILED)


def _convert(source: Path, path: Path) -> Conversion:
    from pyjms_broker.conversion import convert_activemq_xml

    conversion = convert_activemq_xml(source, new_base=path)
    conversion.settings()
    return conversion


def create_instance(path: Path, *, force: bool = False, configuration: str | None = None) -> str:
    """Create the directory of a broker; blocking. Return the password of its user admin.

    `force` replaces existing files, except the broker's data. `configuration` is the text of
    broker.yaml; by default, clients need a user and a password, and the files of users are
    created as well.
    """
    from pyjms.configuration.yaml_writer import write_yaml
    from pyjms_broker.security.passwords import hash_password
    from pyjms_broker.store.files import make_private_directory

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
        "NAME": write_yaml(_FORBIDDEN_IN_NAMES.sub("_", path.name) or "localhost").strip(),
        "PATH": str(path),
        "PYTHON": sys.executable,
        "SHELL_PATH": shlex.quote(str(path)),
        "SHELL_PYTHON": shlex.quote(sys.executable),
        "USER": getpass.getuser(),
        "WEB": "" if importlib.util.find_spec("uvicorn") else "# ",
    }
    texts = {name: _fill_template(name, values) for name in _FILES}
    if configuration is not None:
        texts["broker.yaml"] = configuration
        del texts["groups.properties"]
    for name, text in texts.items():
        write_private(path / name, text, replace=force)
    script = _fill_template("start.sh", values)
    write_private(path / "bin" / "start.sh", script, replace=force, executable=True)
    password = secrets.token_urlsafe(16)
    if configuration is None:
        users = _USERS.format(password=hash_password(password))
        write_private(path / "users.properties", users, replace=force)
    return password


def _fill_template(name: str, values: dict[str, str]) -> str:
    from importlib.resources import files

    text = (files("pyjms_broker.cli") / "templates" / name).read_text(encoding="utf-8")
    return re.sub("@([A-Z_]+)@", lambda match: values[match[1]], text)


Password: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="PASSWORD",
        help="The password (ActiveMQ's option). Unlike the variable PYJMS_ENCRYPTION_PASSWORD, it "
        "is visible to other users of the machine in the process list.",
    ),
]


def passwd() -> None:
    """Print a scrypt hash of a password, which replaces the password in the configuration.

    Prompts for the password, or reads one line of standard input if that is not a terminal.
    """
    from pyjms_broker.security.passwords import hash_password

    with one_line_errors("broker passwd"):
        typer.echo(hash_password(_require(_read("Password", hidden=True), "password")))


def _input_option(what: str) -> Any:
    return typer.Option(
        "--input",
        metavar=what.upper(),
        help=f"The {what} (ActiveMQ's option); the output is in ActiveMQ's format.",
    )


def _algorithm_option(description: str) -> Any:
    return typer.Option("--algorithm", case_sensitive=False, help=description)


def encrypt(
    text: Annotated[str | None, _input_option("text")] = None,
    password: Password = None,
    algorithm: Annotated[
        Algorithm | None,
        _algorithm_option(
            "An algorithm of ActiveMQ. Default: PBEWithMD5AndDES with --input, "
            "otherwise pyjms's own."
        ),
    ] = None,
) -> None:
    """Print a text as an encrypted value, ENC(...), for a configuration file.

    Prompts for the text, or reads one line of standard input if that is not a terminal. The
    password is read from the variable PYJMS_ENCRYPTION_PASSWORD, which the broker also needs. With
    --input, the command works as `activemq encrypt`: it prints "Encrypted text: ..." with the part
    between the parentheses, encrypted by an algorithm that ActiveMQ supports.
    """
    from pyjms.configuration.encryption import PASSWORD_VARIABLES, encrypt

    if text is not None and algorithm is None:
        algorithm = Algorithm.MD5_DES
    with one_line_errors("broker encrypt"):
        variable = PASSWORD_VARIABLES[0]
        secret = _environ(password).get(variable)
        if secret is None:
            raise ConfigurationException(f"set the variable {variable} to the password")
        given = _require(_read("Text", hidden=True) if text is None else text, "text")
        value = encrypt(given, secret, algorithm)
    typer.echo(value if text is None else f"Encrypted text: {value[4:-1]}")
    if algorithm is Algorithm.MD5_DES:
        typer.echo(
            f"note: {algorithm} is weak; use --algorithm {Algorithm.SHA256_AES}, or leave --input"
            " out if only pyjms reads the value",
            err=True,
        )


def decrypt(
    value: Annotated[str | None, _input_option("value")] = None,
    password: Password = None,
    algorithm: Annotated[
        Algorithm | None,
        _algorithm_option("The algorithm of the value. Default: all known ones are tried."),
    ] = None,
) -> None:
    """Print the text of an encrypted value, ENC(...), written by pyjms or ActiveMQ.

    Prompts for the value, or reads one line of standard input if that is not a terminal. The
    password is read from PYJMS_ENCRYPTION_PASSWORD or ACTIVEMQ_ENCRYPTION_PASSWORD. With --input,
    the command works as `activemq decrypt`: it prints "Decrypted text: ...".
    """
    from pyjms.configuration.encryption import decrypt

    with one_line_errors("broker decrypt"):
        given = _read("Encrypted value", hidden=False) if value is None else value
        text = decrypt(given.strip(), _environ(password), algorithm)
    typer.echo(text if value is None else f"Decrypted text: {text}")


def _environ(password: str | None) -> Mapping[str, str]:
    """Return the variable with the password from the option or the environment; {} if none."""
    from pyjms.configuration.encryption import PASSWORD_VARIABLES

    given = (password, *(os.environ.get(name) for name in PASSWORD_VARIABLES))
    first = next((each for each in given if each), None)
    return {} if first is None else {PASSWORD_VARIABLES[0]: first}


def _read(prompt: str, *, hidden: bool) -> str:
    if sys.stdin.isatty():
        return str(typer.prompt(prompt, hide_input=hidden, confirmation_prompt=hidden, err=True))
    return sys.stdin.readline().rstrip("\r\n")


def _require(text: str, what: str) -> str:
    if not text:
        raise ConfigurationException(f"the {what} is empty")
    return text
