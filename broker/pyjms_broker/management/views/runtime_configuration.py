"""The view of the configuration file. (ActiveMQ RuntimeConfigurationView)"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, TypeAlias

from pyjms_broker.management.conversion import LONG, STRING
from pyjms_broker.management.host import Managed, RuntimeUpdates
from pyjms_broker.management.model import Attribute, Operation, ViewKind, view_kind

__all__ = ["RUNTIME_CONFIGURATION"]

_Updates: TypeAlias = Managed[RuntimeUpdates]


def _modified(u: _Updates) -> str | None:
    seconds = u.it.modified
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()


async def _update(u: _Updates) -> str:
    await u.it.update(read_users=True)
    return u.it.status


RUNTIME_CONFIGURATION: Final[ViewKind[_Updates]] = view_kind(
    "org.apache.activemq.plugin.jmx.RuntimeConfigurationView",
    "The configuration file, which is reloaded while the broker is running.",
    [
        Attribute("Url", STRING, "The configuration file.", lambda u: u.it.origin),
        Attribute(
            "Modified", STRING, "The time of the last applied changes; null: never.", _modified
        ),
        Attribute(
            "CheckPeriod",
            LONG,
            "Milliseconds between two checks of the file; 0: no checks.",
            lambda u: round(u.it.check_period * 1000),
        ),
        Attribute(
            "Status",
            STRING,
            "The changes that the last update could not apply, or its error; empty: none.",
            lambda u: u.it.status,
        ),
    ],
    [Operation("updateNow", STRING, "Reload the file; return Status.", _update)],
)
