"""Wait until a broker has stopped or restarted."""

from __future__ import annotations

from functools import partial
from typing import Final

import anyio
import anyio.to_thread

from pyjms.errors import JMSException
from pyjms.runtime import clock as _clock
from pyjms_broker.cli.management.client import ManagementClient

__all__ = ["wait_until_changed"]

_INTERVAL: Final = 0.1
"""Seconds between two requests."""


def wait_until_changed(
    client: ManagementClient, name: str, since: float, *, running: bool, timeout: float
) -> bool:
    """Wait until a broker has stopped or restarted; return False if the time was exceeded.

    Args:
        client: access to the broker.
        name: the name of the broker's view.
        since: the time before the request (`_clock.now`).
        running: wait until the broker has restarted, not only stopped.
        timeout: seconds.
    """
    return anyio.run(_wait, client, name, since, running, timeout)


async def _wait(
    client: ManagementClient, name: str, since: float, running: bool, timeout: float
) -> bool:
    changed = False
    with _clock.timeout(timeout):
        while not changed:
            found = await anyio.to_thread.run_sync(
                partial(_uptime, client, name), abandon_on_cancel=True
            )
            if running:  # an uptime that began before the request belongs to the previous run
                changed = found is not None and found <= _clock.now() - since
            else:
                changed = found is None
            if not changed:
                await _clock.sleep(_INTERVAL)
    return changed


def _uptime(client: ManagementClient, name: str) -> float | None:
    """Return the broker's uptime in seconds; None if it is not running."""
    try:
        found = client.read_all(name, "UptimeMillis").get(name, {}).get("UptimeMillis")
    except JMSException:  # nothing listens, or it is starting or stopping
        return None
    return found / 1000 if isinstance(found, int) else None
