"""Secrets in configuration files: `pyjms broker passwd`, `encrypt` and `decrypt`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Annotated, Any, NoReturn, TypeAlias

import typer

from pyjms._yaml import Algorithm

__all__ = ["decrypt", "encrypt", "passwd"]

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

    password = _read("Password", hidden=True)
    if not password:
        _fail("passwd", "the password is empty")
    typer.echo(hash_password(password))


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
    from pyjms._yaml import PASSWORD_VARIABLES, encrypted
    from pyjms.errors import ConfigurationException

    secret = _environ(password).get(PASSWORD_VARIABLES[0])
    if secret is None:
        _fail("encrypt", f"set the variable {PASSWORD_VARIABLES[0]} to the password")
    given = _read("Text", hidden=True) if text is None else text
    if not given:
        _fail("encrypt", "the text is empty")
    if text is not None and algorithm is None:
        algorithm = Algorithm.MD5_DES
    try:
        value = encrypted(given, secret, algorithm)
    except ConfigurationException as error:
        _fail("encrypt", str(error))
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
    from pyjms._yaml import decrypted
    from pyjms.errors import ConfigurationException

    given = _read("Encrypted value", hidden=False) if value is None else value
    try:
        text = decrypted(given.strip(), _environ(password), algorithm)
    except ConfigurationException as error:
        _fail("decrypt", str(error))
    typer.echo(text if value is None else f"Decrypted text: {text}")


def _environ(password: str | None) -> Mapping[str, str]:
    """Return the variable with the password from the option or the environment; {} if none."""
    from pyjms._yaml import PASSWORD_VARIABLES

    given = (password, *(os.environ.get(name) for name in PASSWORD_VARIABLES))
    first = next((each for each in given if each), None)
    return {} if first is None else {PASSWORD_VARIABLES[0]: first}


def _read(prompt: str, *, hidden: bool) -> str:
    if sys.stdin.isatty():
        return str(typer.prompt(prompt, hide_input=hidden, confirmation_prompt=hidden, err=True))
    return sys.stdin.readline().rstrip("\r\n")


def _fail(command: str, problem: str) -> NoReturn:
    typer.echo(f"pyjms broker {command}: {problem}", err=True)
    raise typer.Exit(2)
