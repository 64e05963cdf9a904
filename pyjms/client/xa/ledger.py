"""The acknowledgement ledger of an XA session: by branch, and by a mode outside of branches.

Within a branch the rule is that of a transacted session. When the session's work in the branch
ends, the messages received are acknowledged in the branch and kept until its outcome is known: then
they are settled or redelivered. In the meantime the consumer may receive in other branches, or
outside of branches.

When a connection is lost, the kept messages are forgotten, so that they are accepted if they are
dispatched again: the broker keeps the acknowledgements of prepared branches, and rolls the other
branches back. (activemq-broker X6)
"""

from __future__ import annotations

from collections.abc import Callable

from pyjms.client.delivery.ack_ledger import AckLedger
from pyjms.client.delivery.deferred_ledgers import (
    DeferredAckLedger,
    IndividualAckLedger,
    choose_ledger,
)
from pyjms.client.interfaces import ClientSession
from pyjms.client.tasks import OwnedTasks
from pyjms.client.xa.branches import Branch
from pyjms.enums import AcknowledgeMode
from pyjms.wire.openwire.commands import ConsumerInfo, MessageDispatch, MessageId

__all__ = ["BranchAckLedger", "choose_branch_ledger"]


class BranchAckLedger(AckLedger):
    """Applies the rule `inside` in branches, `outside` otherwise (None: not allowed)."""

    def __init__(
        self,
        session: ClientSession,
        info: ConsumerInfo,
        inside: DeferredAckLedger,
        outside: AckLedger | None,
    ) -> None:
        self._session = session  # the base class's list is not used: the rules have the messages
        self._info = info
        self._inside = inside
        self._outside = outside
        self._last: AckLedger = inside
        self._by_branch: dict[Branch, list[MessageDispatch]] = {}

    # --- branches

    def end_work(self, branch: Branch, *, acknowledges: bool) -> None:
        """Keep the messages received in `branch`; acknowledge them in it if `acknowledges`."""
        if acknowledges:
            self._inside.acknowledge_in_transaction()
        received = self._inside.pop_delivered()
        if received:
            self._by_branch.setdefault(branch, []).extend(received)

    def pop_branch(self, branch: Branch) -> list[MessageDispatch]:
        """Return and forget the messages received in `branch`."""
        return self._by_branch.pop(branch, [])

    # --- the rule that applies

    def _current(self) -> AckLedger:
        in_branch = self._outside is None or self._session.transaction.id is not None
        return self._inside if in_branch or self._outside is None else self._outside

    @property
    def redelivers_on_error(self) -> bool:  # type: ignore[override]
        return self._last.redelivers_on_error

    def before_delivery(self, dispatch: MessageDispatch) -> None:
        self._last = self._current()
        self._last.before_delivery(dispatch)

    def after_delivery(self, dispatch: MessageDispatch) -> None:
        self._last.after_delivery(dispatch)

    def flush(self) -> None:
        if self._outside is not None:
            self._outside.flush()

    def start_timer(self, tasks: OwnedTasks) -> None:
        if self._outside is not None:
            self._outside.start_timer(tasks)

    def close(self) -> None:
        if self._outside is not None:
            self._outside.close()

    @property
    def acknowledger_of_one(self) -> Callable[[MessageDispatch], None] | None:
        return None if self._outside is None else self._outside.acknowledger_of_one

    def acknowledge(self) -> None:
        if self._outside is not None:
            self._outside.acknowledge()

    # --- what was delivered

    @property
    def _rules(self) -> list[AckLedger]:
        return [self._inside, *filter(None, [self._outside])]

    @property
    def delivered(self) -> list[MessageDispatch]:  # type: ignore[override]
        """The unsettled messages of the current work; without those kept by branch."""
        return [dispatch for rule in self._rules for dispatch in rule.delivered]

    @property
    def has_unsettled(self) -> bool:
        return bool(self._by_branch) or any(rule.has_unsettled for rule in self._rules)

    def holds(self, message_id: MessageId | None) -> bool:
        return any(rule.holds(message_id) for rule in self._rules)

    def pop_delivered(self) -> list[MessageDispatch]:
        return self._last.pop_delivered()

    def interrupted(self) -> list[MessageDispatch]:
        kept, self._by_branch = self._by_branch, {}
        dropped = self._inside.pop_delivered()
        for received in kept.values():
            dropped += received
        if self._outside is not None:
            dropped += self._outside.interrupted()
        return dropped


def choose_branch_ledger(session: ClientSession, info: ConsumerInfo) -> AckLedger:
    """Return the ledger of a new consumer of an XA session."""
    if info.browser:
        return choose_ledger(session, info)
    individual = session.connection.options.transacted_individual_ack or session.reorders
    inside = (IndividualAckLedger if individual else DeferredAckLedger)(session, info)
    has_mode = session.acknowledge_mode != AcknowledgeMode.TRANSACTED
    outside = choose_ledger(session, info) if has_mode else None
    return BranchAckLedger(session, info, inside, outside)
