"""The destinations in metrics and events."""

from __future__ import annotations

from typing import Any, Final

from pyjms.jms.destination import ADVISORY_PREFIX
from pyjms_broker.management.management import Management
from pyjms_broker.management.model import View
from pyjms_broker.management.names import DOMAIN

__all__ = ["destination_views"]

_PATTERN: Final = f"{DOMAIN}:type=Broker,brokerName=*,destinationType=*,destinationName=*"


def destination_views(management: Management) -> list[View[Any]]:
    """Return the views of queues and topics by name, except for advisory and temporary ones."""
    found = [
        view
        for view in management.find(_PATTERN)
        if not view.name.keys["destinationType"].startswith("Temp")
        and not view.name.keys["destinationName"].startswith(ADVISORY_PREFIX)
    ]
    return sorted(found, key=lambda view: view.name.text)
