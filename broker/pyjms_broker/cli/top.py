"""The command `pyjms broker top`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

from pyjms.cli.options import PasswordFile, duration_option, read_credentials
from pyjms.cli.terminal import one_line_errors
from pyjms.errors import ConfigurationException
from pyjms.runtime.distribution import install_command
from pyjms_broker.cli.management.client import (
    DEFAULT_URL,
    JolokiaClient,
    ManagementUrl,
    ManagementUser,
    Password,
)

if TYPE_CHECKING:
    from pyjms_broker.cli.top_screen import Sample, Sampler

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
) -> None:
    """Show the destinations of a running broker, live: sizes, rates, consumers. `q` quits.

    Keys: `s` sorts by the next column, `r` reverses the order, `/` filters by name, `t` shows only
    queues or topics, `space` pauses and resumes, `enter` shows the consumers of the destination.
    Advisory topics are not shown.
    """
    from pyjms_broker.cli.top_screen import Sampler

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
        run = _application()
        credentials = read_credentials(user, password_file, password)
        sampler = Sampler(JolokiaClient(url, credentials, timeout=_PATIENCE))
        first = sampler.sample()  # report errors before the screen is taken over
        run(sampler, first, interval)


def _application() -> Callable[[Sampler, Sample, float], None]:

    try:
        from pyjms_broker.cli.top_screen import run
    except ImportError as error:
        raise ConfigurationException(
            "top needs the package textual", hint=install_command("tui")
        ) from error
    return run
