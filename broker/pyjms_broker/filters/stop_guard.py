"""The outermost filter, which refuses all calls once the broker is stopped.

(activemq-broker B2)
"""

from __future__ import annotations

from typing import Any, NoReturn

from pyjms.errors import IllegalStateException
from pyjms_broker.api.broker import Broker, BrokerFilter


class ErrorBroker(Broker):
    """A stopped broker, which refuses every call. Source: ActiveMQ ErrorBroker."""

    @property
    def broker_name(self) -> str:
        """Refused like every call."""
        self._refuse()

    @property
    def scheduler_support(self) -> bool:
        """Always False."""
        return False

    async def start(self) -> None:
        self._refuse()

    async def stop(self) -> None:
        """Do nothing: there is nothing to stop."""

    @property
    def authenticates_clients(self) -> bool:
        return True  # nobody can connect

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise IllegalStateException("Broker has been stopped")

    authenticate = _refuse
    add_connection = _refuse
    remove_connection = _refuse
    add_session = _refuse
    remove_session = _refuse
    add_producer = _refuse
    remove_producer = _refuse
    add_consumer = _refuse
    remove_consumer = _refuse
    remove_subscription = _refuse
    add_destination_info = _refuse
    remove_destination_info = _refuse
    add_destination = _refuse
    remove_destination = _refuse
    send = _refuse
    is_awaited = _refuse
    acknowledge = _refuse
    message_pull = _refuse
    process_consumer_control = _refuse
    begin_transaction = _refuse
    prepare_transaction = _refuse
    commit_transaction = _refuse
    rollback_transaction = _refuse
    forget_transaction = _refuse
    set_rollback_only = _refuse
    prepared_transactions = _refuse
    message_expired = _refuse
    send_to_dead_letter_queue = _refuse
    message_consumed = _refuse
    message_discarded = _refuse
    slow_consumer = _refuse
    message_delivered = _refuse
    message_dispatched = _refuse
    message_without_consumers = _refuse
    fast_producer = _refuse
    destination_full = _refuse
    now_master_broker = _refuse
    network_bridge_started = _refuse
    network_bridge_stopped = _refuse
    network_forward_failed = _refuse
    destinations = _refuse


class StopGuard(BrokerFilter):
    """Passes all calls on until it is stopped, and refuses them afterwards.

    It must be the outermost filter: a filter around it might be wired to bypass it (see
    BrokerFilter).
    """

    async def stop(self) -> None:
        try:
            await self.next.stop()
        finally:
            self.connect(ErrorBroker())
