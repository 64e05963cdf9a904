"""Adding of a producer on a composite, whose members may have to be created first.

Meanwhile the broker serves other clients but reads nothing from this one, so the producer's
messages are handled afterwards.
"""

from __future__ import annotations

from pyjms._wakeup import spawn
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ProducerInfo
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.chain.composite import members_of
from pyjms_broker.chain.destination_creation import CREATED_IN_ONE_TURN, create_in_turns
from pyjms_broker.connector.openwire.connection import BrokerConnection
from pyjms_broker.connector.openwire.connection_state import connection_of

__all__ = ["add_composite_producer"]


def add_composite_producer(
    connection: BrokerConnection, info: ProducerInfo, destination: Destination
) -> Completion:
    """Register a producer on `destination`; completed when all members exist and it is registered.

    Raises:
        InvalidDestinationException: the composite has no members, or too many.
        IllegalStateException: its connection or session is unknown or has too many.
    """
    members = members_of(destination)
    resources = connection.resources
    state = (
        None
        if info.producer_id is None
        else resources.connections.get(connection_of(info.producer_id))
    )
    if state is None or len(members) <= CREATED_IN_ONE_TURN:
        resources.add_producer(info)
        return COMPLETED
    added = Completion()

    async def create_and_add() -> None:
        try:
            await create_in_turns(
                connection.broker, state.context, members, lambda: state in open_connections()
            )
            resources.add_producer(info)
        except Exception as error:
            added.complete(error)
        else:
            added.complete()

    open_connections = resources.connections.values
    connection.pause_until(added)
    spawn(
        create_and_add, name=f"creates {len(members)} destinations for {connection.remote_address}"
    )
    return added
