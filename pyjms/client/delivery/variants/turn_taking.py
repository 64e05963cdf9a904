"""Consumers whose listeners take turns with all others of the connection.

With `jms.alwaysSessionAsync=false`, the single reading thread of an ActiveMQ connection calls the
listeners of all its sessions. Here only the listeners wait for each other: a listener may wait for
a response from the broker, which in ActiveMQ would never arrive. (activemq-edges N19)
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
        if not self._flowing:  # a stop or close must not wait for the listener's turn
            self.session.connection.listener_turns.withdraw(self)
