"""What becomes of requests whose response is outstanding when the broker is lost.

    removals, acknowledgements, rollbacks    done: the next broker knows nothing to remove, deliver
                                             again or roll back
    a commit that may have been executed     TransactionRolledBackException, with the next broker
    everything else                          sent again; a persistent message that the lost broker
                                             has stored is recognized there (activemq-broker T27)

(activemq-edges F3, F4, F6; activemq-broker X9)
"""

from __future__ import annotations

from pyjms.errors import ConnectionFailedException, TransactionRolledBackException
from pyjms.transport.failover.requests import Request
from pyjms.wire.openwire.commands import (
    Command,
    DestinationInfo,
    MessageAck,
    RemoveInfo,
    TransactionInfo,
    TransactionType,
)

__all__ = ["failed_again", "in_doubt", "is_done_by_loss", "is_in_doubt", "stopped", "timed_out"]

_REMOVE = 1


def is_done_by_loss(command: Command) -> bool:
    """Whether `command` has its effect by the loss of the broker."""
    if isinstance(command, TransactionInfo):
        return command.type == TransactionType.ROLLBACK
    if isinstance(command, DestinationInfo):
        return command.operation_type == _REMOVE
    return isinstance(command, RemoveInfo | MessageAck)


def is_in_doubt(request: Request) -> bool:
    """Whether `request` is a commit that the lost broker may have executed."""
    command = request.command
    return (
        request.was_sent
        and isinstance(command, TransactionInfo)
        and command.type == TransactionType.COMMIT_ONE_PHASE
    )


def in_doubt(request: Request) -> TransactionRolledBackException:
    """Return how such a commit ends. (activemq-broker X9)"""
    command = request.command
    assert isinstance(command, TransactionInfo)
    return TransactionRolledBackException(
        "Transaction completion in doubt due to failover. Forcing rollback of "
        f"{command.transaction_id}",
        hint="the lost broker may have committed it; messages that it delivers again were not",
    )


def timed_out(seconds: float, brokers: object) -> ConnectionFailedException:
    """Return why a message is not sent."""
    return ConnectionFailedException(
        f"Failover timeout of {seconds * 1000:.0f} ms reached.",
        hint=f"none of [{brokers}] could be reached; the option timeout (ms) sets the limit",
    )


def stopped(address: str) -> ConnectionFailedException:
    """Return why nothing is sent through a transport that was stopped."""
    return ConnectionFailedException(f"The transport to {address} was stopped")


def failed_again(error: Exception) -> ConnectionFailedException:
    """Return a new exception for one caller, whose cause is `error`."""
    again = ConnectionFailedException(str(error) or type(error).__name__)
    again.linked_exception = again.__cause__ = error
    return again
