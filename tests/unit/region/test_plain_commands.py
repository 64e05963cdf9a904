"""Plain messages and acknowledgements pass by the filters that only pass them on."""

from __future__ import annotations

from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.broker import BrokerFilter
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ProducerExchange
from pyjms_broker.filters.transactions import TransactionBroker
from pyjms_broker.service.filter_chain import ErrorBroker
from pyjms_broker.store.memory import MemoryTransactionStore


class Listening(BrokerFilter):
    """Does nothing with messages."""


class Counting(TransactionBroker):
    """An extension of a built-in filter that acts on each message."""

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        return super().send(exchange, message)


def test_filters_that_do_not_act_on_plain_commands_are_passed_by() -> None:
    region = ErrorBroker()
    assert Listening(TransactionBroker(region, MemoryTransactionStore())).plain is region


def test_a_filter_that_extends_a_built_in_one_gets_plain_messages() -> None:
    counting = Counting(ErrorBroker(), MemoryTransactionStore())
    assert counting.plain is None
    assert Listening(counting).plain is counting
