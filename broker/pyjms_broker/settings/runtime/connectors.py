"""Open and close connectors of a running broker when its configuration changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyjms._logger import get_logger
from pyjms.errors import JMSException
from pyjms_broker.settings.runtime.differences import is_same
from pyjms_broker.settings.servers.connectors import ConnectorSettings

if TYPE_CHECKING:
    from pyjms_broker.service import BrokerService

__all__ = ["change_connectors"]

logger = get_logger(__name__)


async def change_connectors(
    service: BrokerService, before: Sequence[ConnectorSettings], after: Sequence[ConnectorSettings]
) -> tuple[Sequence[ConnectorSettings], list[str]]:
    """Close connectors that are no longer listed, and their connections; then open new ones.

    A connector with changed settings is closed and reopened. Returns the list in effect, which is
    `before` unless all changes succeeded, and the problems.
    """
    if any(made not in service.connectors for _, made in service.configured.connectors):
        return before, [
            "connectors: options of the command, or an operator, have replaced some of them"
        ]
    wanted = list(after)
    for settings, made in tuple(service.configured.connectors):
        same = next((each for each in wanted if is_same(settings, each)), None)
        if same is not None:
            wanted.remove(same)
            continue
        service.configured.connectors.remove((settings, made))
        service.connectors.remove(made)
        await made.stop()
        logger.info("Connector %s stopped", made.name)
    problems: list[str] = []
    for new in wanted:
        try:
            made = service.configured.add_connector(new, service.add_connector)
        except JMSException as error:
            problems.append(f"connectors: {error}")
            continue
        try:
            await made.start()
        except JMSException as error:
            service.configured.connectors.remove((new, made))
            service.connectors.remove(made)
            problems.append(f"connectors: {error}")
        else:
            logger.info("Connector %s started: %s", made.name, made.connect_uri)
    return before if problems else after, problems
