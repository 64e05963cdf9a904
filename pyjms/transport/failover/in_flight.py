"""The outcomes of requests whose response is pending when the broker is lost.

    removals, acknowledgements, rollbacks    done: the next broker has nothing to remove, deliver
    of local transactions                    again or roll back
    a commit or prepare that may have been   TransactionRolledBackException, once there is a next
    executed                                 broker
    commit and rollback of a prepared        sent again; done if the next broker does not know the
    branch                                   branch any more
    everything else                          sent again; a persistent message that the lost broker
                                             has stored is recognised there (activemq-broker T27)

(activemq-edges F3, F4, F6; activemq-broker X9)
"""

from __future__ import annotations

from pyjms.errors import (
    ConnectionFailedException,
    IllegalStateException,
    TransactionRolledBackException,
    XAException,
)
from pyjms.transport.failover.requests import Request
from pyjms.wire.openwire.commands import (
    Command,
    DestinationInfo,
    LocalTransactionId,
    MessageAck,
    RemoveInfo,
    Response,
    TransactionInfo,
    TransactionType,
)

__all__ = [
    "failed_again",
    "in_doubt",
    "is_done_by_loss",
    "is_in_doubt",
    "outcome_of",
    "stopped",
    "timed_out",
]

_REMOVE = 1
_OF_ARTEMIS = "Transaction not started"
_DOUBTFUL = (TransactionType.COMMIT_ONE_PHASE, TransactionType.PREPARE)
_REPEATABLE = (TransactionType.COMMIT_TWO_PHASE, TransactionType.ROLLBACK, TransactionType.FORGET)


def is_done_by_loss(command: Command) -> bool:
    """Return whether the loss of the broker has the effect of `command`."""
    if isinstance(command, TransactionInfo):
        is_local = isinstance(command.transaction_id, LocalTransactionId)
        return is_local and command.type == TransactionType.ROLLBACK
    if isinstance(command, DestinationInfo):
        return command.operation_type == _REMOVE
    return isinstance(command, RemoveInfo | MessageAck)


def is_in_doubt(request: Request) -> bool:
    """Return whether `request` is a commit or prepare that the lost broker may have executed."""
    command = request.command
    return request.was_sent and isinstance(command, TransactionInfo) and command.type in _DOUBTFUL


def outcome_of(request: Request, outcome: Response | Exception) -> Response | Exception:
    """Return the outcome of a request for its caller.

    If a request to end a prepared branch was sent again and the broker does not know the branch any
    more, it has succeeded: no other client ends the branch.
    """
    command = request.command
    is_done = (
        request.was_repeated
        and isinstance(command, TransactionInfo)
        and command.type in _REPEATABLE
        and isinstance(outcome, Exception)
        and _is_of_unknown_branch(outcome)
    )
    return Response() if is_done else outcome


def _is_of_unknown_branch(error: Exception) -> bool:
    if isinstance(error, XAException):
        return error.xa_error_code == XAException.XAER_NOTA
    return isinstance(error, IllegalStateException) and error.reason.startswith(_OF_ARTEMIS)


def in_doubt(request: Request) -> TransactionRolledBackException:
    """Return the exception for a commit in doubt. (activemq-broker X9)"""
    command = request.command
    assert isinstance(command, TransactionInfo)
    return TransactionRolledBackException(
        "Transaction completion in doubt due to failover. Forcing rollback of "
        f"{command.transaction_id}",
        hint="the lost broker may have committed it; messages that it delivers again were not",
    )


def timed_out(seconds: float, brokers: object) -> ConnectionFailedException:
    """Return the exception of a send that has timed out."""
    return ConnectionFailedException(
        f"Failover timeout of {seconds * 1000:.0f} ms reached.",
        hint=f"none of [{brokers}] could be reached; the option timeout (ms) sets the limit",
    )


def stopped(address: str) -> ConnectionFailedException:
    """Return the exception of a send through a transport that was stopped."""
    return ConnectionFailedException(f"The transport to {address} was stopped")


def failed_again(error: Exception) -> ConnectionFailedException:
    """Return a new exception for one caller, whose cause is `error`."""
    again = ConnectionFailedException(str(error) or type(error).__name__)
    again.linked_exception = again.__cause__ = error
    return again
