"""The broker of a soak: small limits, and what its memory may be."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

__all__ = ["memory_bound", "write_configuration"]

MIB: Final = 1 << 20
MEMORY_LIMIT: Final = 48 * MIB
UNFINISHED: Final = 24 * MIB
UNSENT: Final = 24 * MIB
WAITING: Final = 16 * MIB
DESTINATIONS: Final = 2500
BASE: Final = 80 * MIB
"""What the process has without messages and clients: the interpreter and its modules."""
PER_DESTINATION: Final = 48 << 10
PER_CONNECTION: Final = 40 << 10
CONNECTIONS: Final = 600
"""Clients, silent ones included; the plan does not come to more at a time."""


def memory_bound() -> int:
    """Return the memory limit of the broker's process in bytes.

    Twice the limits: a message in memory has its object and its frame, and freed memory stays
    with the process in part. Destinations and connections are limited in their numbers.
    """
    numbers = DESTINATIONS * PER_DESTINATION + CONNECTIONS * PER_CONNECTION
    return BASE + numbers + 2 * (MEMORY_LIMIT + UNFINISHED + UNSENT + WAITING)


def write_configuration(path: Path, port: int) -> None:
    """Write broker.yaml for a broker on `port`; 0: any."""
    wire = "wireFormat.maxFrameSize=8388608&wireFormat.maxInactivityDuration=6000"
    settings = {
        "broker_name": "soak",
        "scheduler_support": True,
        "unfinished_frames_limit": UNFINISHED,
        "unsent_frames_limit": UNSENT,
        "maximum_destinations": DESTINATIONS,
        "maximum_destinations_per_connection": 1000,
        "frame_read_timeout": "5s",
        "frame_write_timeout": "5s",
        "connection_info_timeout": "10s",
        "schedule_period_for_destination_purge": "5s",
        "system_usage": {
            "memory_limit": MEMORY_LIMIT,
            "store_limit": 2048 * MIB,
            "temp_limit": 256 * MIB,
        },
        "persistence": {
            "type": "kahadb",
            "journal": {
                "max_file_length": 8 * MIB,
                "max_waiting_bytes": WAITING,
                "resume_check_sleep_period": "500ms",
            },
            "cleanup_interval": "5s",
            "checkpoint_interval": "2s",
        },
        "connectors": [{"uri": f"tcp://127.0.0.1:{port}?{wire}"}],
        "policies": [
            {
                "destination": "soak.>",
                "persist_jms_redelivered": True,
                "expire_messages_period": "2s",
                "dead_letter_strategy": {"type": "individual"},
            },
            {"destination": "Consumer.>", "persist_jms_redelivered": True},
            {
                "destination": "hostile.>",
                "gc_inactive_destinations": True,
                "inactive_timeout_before_gc": "5s",
                "expire_messages_period": "5s",
                "dead_letter_strategy": {"type": "discarding"},
            },
        ],
    }
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
