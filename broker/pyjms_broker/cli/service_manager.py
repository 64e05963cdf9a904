"""Notify systemd that the broker is ready or stopping (`Type=notify`)."""

from __future__ import annotations

import os
import socket
from typing import Final

from pyjms._logger import get_logger

__all__ = ["READY", "STOPPING", "notify"]

logger = get_logger(__name__)

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"


def notify(state: str) -> None:
    """Send a state to the service manager that started this process, if there is one."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # Linux's abstract socket namespace
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(address)
            sender.send(state.encode("ascii"))
    except OSError as error:
        logger.warning("The service manager could not be notified of %s: %s", state, error)
