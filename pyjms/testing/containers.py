"""Brokers in containers, started with docker or podman, for the tests of one pytest run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from pyjms.errors import ConfigurationException, JMSException, ResourceAllocationException
from pyjms.sync.connection import ConnectionFactory

__all__ = ["PREFIX", "broker_in_container"]

PREFIX: Final = "container:"
"""Marks an image instead of a URL."""
_PORT: Final = "61616"
_RUNTIMES: Final = ("docker", "podman")
_COMMAND_TIMEOUT: Final = 300.0
"""Time limit of a command in seconds; `run` may have to pull the image."""
_START_TIMEOUT: Final = 120.0
_TRY_AGAIN: Final = 0.25


@contextmanager
def broker_in_container(described: str) -> Iterator[str]:
    """Run `container:IMAGE[?OPTIONS]` in this block; yield the URL of its broker. Blocks.

    The image's port 61616 is published on a free port of this machine. The options, such as
    `jms.userName=artemis&jms.password=artemis`, become those of the URL. The container is removed
    at the end.

    Raises:
        ConfigurationException: no image is named, or neither docker nor podman is installed.
        ResourceAllocationException: the container does not start, or its broker does not accept
            connections.
    """
    image, _, options = described.removeprefix(PREFIX).partition("?")
    if not image:
        raise ConfigurationException(
            f"The broker {described!r} names no image",
            hint="such as container:apache/activemq-classic:6.1.7",
        )
    runtime = next(filter(None, map(shutil.which, _RUNTIMES)), None)
    if runtime is None:
        raise ConfigurationException(
            f"The broker {described!r} needs docker or podman",
            hint="install one of them, or give the URL of a broker that runs",
        )
    identifier = _run(runtime, "run", "--detach", "--publish", f"127.0.0.1::{_PORT}", image)
    try:
        address = _run(runtime, "port", identifier, f"{_PORT}/tcp").splitlines()[0]
        url = f"tcp://{address}" + (f"?{options}" if options else "")
        _wait_for_broker(runtime, identifier, url)
        yield url
    finally:
        _run(runtime, "rm", "--force", "--volumes", identifier)


def _wait_for_broker(runtime: str, identifier: str, url: str) -> None:
    def may_come(error: BaseException) -> bool:
        state = _run(runtime, "inspect", "--format", "{{.State.Running}}", identifier)
        return isinstance(error, JMSException) and state == "true"

    attempts = Retrying(
        retry=retry_if_exception(may_come),
        stop=stop_after_delay(_START_TIMEOUT),
        wait=wait_fixed(_TRY_AGAIN),
        reraise=True,
    )
    try:
        attempts(lambda: ConnectionFactory(url).create_connection().close())
    except JMSException as error:
        raise ResourceAllocationException(
            f"The broker of container {identifier[:12]} accepts no connection: {error}",
            hint=f"`{runtime} run --publish {_PORT} IMAGE` shows what it does",
        ) from error


def _run(*command: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - the runtime, with the image that the project names
            command, capture_output=True, text=True, check=False, timeout=_COMMAND_TIMEOUT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ResourceAllocationException(f"{' '.join(command)}: {error}") from error
    if done.returncode != 0:
        raise ResourceAllocationException(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip()
