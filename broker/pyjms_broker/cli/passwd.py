"""Secrets of configuration files: `pyjms broker passwd`, `encrypt` and `decrypt`, as ActiveMQ's."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import typer

__all__ = ["decrypt", "encrypt", "passwd"]


def passwd() -> None:
    """Print a scrypt hash of a password, to be written into the configuration in its place.

    It asks for the password, or reads one line of the standard input if that is not a terminal.
    """
    from pyjms_broker.security.passwords import hash_password

    password = _read("Password", hidden=True)
    if not password:
        _fail("passwd", "the password is empty")
    typer.echo(hash_password(password))


def encrypt() -> None:
    """Print a text as an encrypted value, ENC(...), for a configuration file.

    It asks for the text, or reads one line of the standard input if that is not a terminal. The
    password is in the variable PYJMS_ENCRYPTION_PASSWORD, which the broker needs, too.
    """
    from pyjms._yaml import PASSWORD_VARIABLES, encrypted
    from pyjms.errors import ConfigurationException

    password = next((os.environ[name] for name in PASSWORD_VARIABLES if os.environ.get(name)), None)
    if password is None:
        _fail("encrypt", f"set the variable {PASSWORD_VARIABLES[0]} to the password")
    text = _read("Text", hidden=True)
    if not text:
        _fail("encrypt", "the text is empty")
    try:
        typer.echo(encrypted(text, password))
    except ConfigurationException as error:
        _fail("encrypt", str(error))


def decrypt() -> None:
    """Print the text of an encrypted value, ENC(...), ActiveMQ's included.

    It asks for the value, or reads one line of the standard input if that is not a terminal. The
    password is in PYJMS_ENCRYPTION_PASSWORD or ACTIVEMQ_ENCRYPTION_PASSWORD.
    """
    from pyjms._yaml import decrypted
    from pyjms.errors import ConfigurationException

    value = _read("Encrypted value", hidden=False).strip()
    try:
        typer.echo(decrypted(value, os.environ))
    except ConfigurationException as error:
        _fail("decrypt", str(error))


def _read(prompt: str, *, hidden: bool) -> str:
    if sys.stdin.isatty():
        return str(typer.prompt(prompt, hide_input=hidden, confirmation_prompt=hidden, err=True))
    return sys.stdin.readline().rstrip("\r\n")


def _fail(command: str, problem: str) -> NoReturn:
    typer.echo(f"pyjms broker {command}: {problem}", err=True)
    raise typer.Exit(2)
