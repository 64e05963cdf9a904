"""Start and stop network connectors of a running broker when its configuration changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyjms.errors import JMSException
from pyjms_broker.settings.runtime.differences import is_same
from pyjms_broker.settings.servers.network import NetworkConnectorSettings

if TYPE_CHECKING:
    from pyjms_broker.service import BrokerService

__all__ = ["change_networks"]


async def change_networks(
    service: BrokerService,
    before: Sequence[NetworkConnectorSettings],
    after: Sequence[NetworkConnectorSettings],
) -> tuple[Sequence[NetworkConnectorSettings], list[str]]:
    """Stop network connectors that are no longer listed, then start new ones.

    A network connector with changed settings is restarted. Returns those in effect, and the
    problems. Messages that were not forwarded remain in the broker for the next network connector.
    """
    kept = [old for old in before if any(is_same(old, new) for new in after)]
    for old in before:
        if old not in kept:
            await service.networks.remove(old.name)
    in_effect: list[NetworkConnectorSettings] = []
    problems: list[str] = []
    for new in after:
        if not any(is_same(old, new) for old in kept):
            try:
                service.add_network_connector(new.uri, new.attributes()).start()
            except JMSException as error:
                problems.append(f"network_connectors: {error}")
                continue
        in_effect.append(new)
    return tuple(in_effect), problems
