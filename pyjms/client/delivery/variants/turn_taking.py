"""Consumers whose listeners take turns with all others of the connection.

`jms.alwaysSessionAsync=false`: in ActiveMQ the connection's one reading thread then calls the
listeners of all its sessions. Here only the listeners wait for each other: a listener may wait for
a response of the broker, which in ActiveMQ would never arrive. (activemq-edges N19)
"""

from __future__ import annotations

from pyjms.client.delivery.consumer import ActiveMQMessageConsumer

__all__ = ["TurnTakingConsumer"]


class TurnTakingConsumer(ActiveMQMessageConsumer):
    """A consumer that calls its listener while no other listener of the connection runs."""

    async def deliver_one(self) -> bool:
        turns = self.session.connection.listener_turns
        if not await turns.take(self):
            return False
        try:
            return await super().deliver_one()
        finally:
            turns.give_back()

    def update_flow(self) -> None:
        super().update_flow()
        if not self._flowing:  # whoever stops or closes it does not wait for its turn
            self.session.connection.listener_turns.withdraw(self)
