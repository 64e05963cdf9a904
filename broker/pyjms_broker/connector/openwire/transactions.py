"""The transaction steps that clients request, by type. (openwire-encoding 13)"""

from __future__ import annotations

from collections.abc import Callable

from pyjms.errors import IllegalStateException, JMSException
from pyjms.wire.openwire.commands import (
    DataArrayResponse,
    IntegerResponse,
    Response,
    TransactionId,
    TransactionInfo,
    TransactionType,
)
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.connector.openwire.connection_state import ConnectionState, DeferredResponse

__all__ = ["run"]

XA_OK = 0
XA_RDONLY = 3


def run(broker: Broker, state: ConnectionState, info: TransactionInfo) -> Completion | Response:
    """Run the step that `info` requests.

    Raises:
        JMSException: the type is unknown, the id is missing, or the broker refuses.
    """
    if info.type == TransactionType.RECOVER:
        return DataArrayResponse(data=list(broker.prepared_transactions(state.context)))
    step = _STEPS.get(info.type)
    if step is None:
        raise JMSException(f"Unknown transaction info type: {info.type}")
    if info.transaction_id is None:
        raise JMSException("Cannot run a transaction without a transaction id")
    return step(broker, state, info.transaction_id)


def _begin(broker: Broker, state: ConnectionState, xid: TransactionId) -> Completion:
    if state.transactions.get(xid) is not None:
        _forget_ended(broker, state)
    if xid not in state.transactions:  # a second begin is a replay (activemq-broker C3)
        if _count(state) >= state.maximum_transactions:
            _forget_ended(broker, state)
        if _count(state) >= state.maximum_transactions:
            raise IllegalStateException(
                f"Can't begin a transaction on connection {state.info.connection_id}: "
                f"at maximum limit: {state.maximum_transactions}"
            )
        broker.begin_transaction(state.context, xid)
        state.transactions[xid] = None
    return COMPLETED


def _count(state: ConnectionState) -> int:
    return len(state.transactions) + len(state.context.waiting_ends)


def _forget_ended(broker: Broker, state: ConnectionState) -> None:
    """Drop the votes of branches that other connections have ended."""
    prepared = broker.prepared_transactions(state.context)
    for xid in [xid for xid, vote in state.transactions.items() if vote is not None]:
        if xid not in prepared:
            del state.transactions[xid]


def _prepare(broker: Broker, state: ConnectionState, xid: TransactionId) -> Completion | Response:
    if xid not in state.transactions:
        raise IllegalStateException(
            "Cannot prepare a transaction that had not been started or previously returned"
            f" XA_RDONLY: {xid}"
        )
    former = state.transactions[xid]
    if former is not None:
        return IntegerResponse(result=former)
    result = broker.prepare_transaction(state.context, xid)
    if isinstance(result, Completion):
        return _prepare_deferred(state, xid, result)
    if result == XA_RDONLY:
        state.transactions.pop(xid, None)
    else:
        state.transactions[xid] = result
    return IntegerResponse(result=result)


def _prepare_deferred(
    state: ConnectionState, xid: TransactionId, prepared: Completion
) -> Completion:
    response = DeferredResponse(IntegerResponse(result=XA_OK))

    def done(completion: Completion) -> None:
        if completion.error is None and xid in state.transactions:
            state.transactions[xid] = XA_OK
        response.complete(completion.error)

    prepared.then(done)
    return response


def _commit_one_phase(broker: Broker, state: ConnectionState, xid: TransactionId) -> Completion:
    state.transactions.pop(xid, None)
    return broker.commit_transaction(state.context, xid, one_phase=True)


def _commit_two_phase(broker: Broker, state: ConnectionState, xid: TransactionId) -> Completion:
    state.transactions.pop(xid, None)
    return broker.commit_transaction(state.context, xid, one_phase=False)


def _rollback(broker: Broker, state: ConnectionState, xid: TransactionId) -> Completion:
    state.transactions.pop(xid, None)
    return broker.rollback_transaction(state.context, xid)


def _forget(broker: Broker, state: ConnectionState, xid: TransactionId) -> Completion:
    state.transactions.pop(xid, None)
    return broker.forget_transaction(state.context, xid)


def _end(_broker: Broker, _state: ConnectionState, _xid: TransactionId) -> Completion:
    """Do nothing: the response only confirms that all previous commands have arrived."""
    return COMPLETED


_STEPS: dict[int, Callable[[Broker, ConnectionState, TransactionId], Completion | Response]]
_STEPS = {
    TransactionType.BEGIN: _begin,
    TransactionType.PREPARE: _prepare,
    TransactionType.COMMIT_ONE_PHASE: _commit_one_phase,
    TransactionType.COMMIT_TWO_PHASE: _commit_two_phase,
    TransactionType.ROLLBACK: _rollback,
    TransactionType.FORGET: _forget,
    TransactionType.END: _end,
}
