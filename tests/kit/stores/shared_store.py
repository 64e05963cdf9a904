"""Two of our brokers that share a KahaDB store, whose lock the second one waits for."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import yaml

__all__ = ["free_ports", "sharing_commands"]


def free_ports() -> list[int]:
    """Return two ports that are free now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def sharing_commands(folder: Path, ports: list[int]) -> list[list[str]]:
    """Return the commands that start them at these ports."""
    store = {
        "type": "kahadb",
        "directory": str(folder / "store"),
        "lock_acquire_sleep_interval": "50ms",
    }
    commands = []
    for port in ports:
        path = folder / f"broker-{port}.yaml"
        connectors = [{"uri": f"tcp://127.0.0.1:{port}"}]
        path.write_text(
            yaml.safe_dump(
                {
                    "broker_name": f"b{port}",
                    "data_directory": str(folder / f"data-{port}"),
                    "persistence": store,
                    "connectors": connectors,
                    "policies": [{"destination": ">", "persist_jms_redelivered": True}],
                }
            ),
            encoding="utf-8",
        )
        commands.append([sys.executable, "-m", "pyjms_broker", "start", "--config", str(path)])
    return commands
