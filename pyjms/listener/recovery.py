"""Recovery from a lost connection: one consumer reconnects, the others wait for it.

Theory of operation (spring-jms 1.11)
-------------------------------------

Every invoker that fails outside of a listener calls `Recovery.recover` with its error. The first
one takes the lock and refreshes the connection until that succeeds, the back-off is exhausted or
the container stops; the others wait for the lock. A successful refresh increments the *generation*.
Each invoker remembers the generation at which it last saw a working connection (`join`). If it gets
the lock and finds a newer generation, another invoker has recovered in the meantime, and it returns
at once to try again. So one outage causes one series of attempts, however many consumers there are.

    fail --> [first failure of a start that cannot work?] --> stop the container, give up
      |
      +--> [failed again since its last receive?] --> one wait of the invoker's own back-off;
      |                                               exhausted: the invoker is removed
      +--> lock --> [newer generation?] --> return, try again
                 +--> attempt, wait, attempt ... --> generation + 1
                        exhausted: stop the container

An attempt tests more than the connection: it opens a session and a consumer on the destination, and
closes them. If the broker accepts connections but not this consumer, the attempt has failed.

The invoker's own back-off (its `setup_failures`) is for the case that a refresh succeeds
and the same consumer still fails: without a wait it would retry in a busy loop. Any successful
receive resets it.

A container that has just been started is a special case: an error that no retry can fix (an invalid
selector, an unsupported option) is reported to the caller that waits for the start, and the
container stops instead of retrying for ever. Later the same errors are retried, as in Spring.

The back-off determines the waits and the number of attempts. The log lines are Spring's. Containers
that share an `Outages` log the failures of an unreachable broker at DEBUG, and the `Outages` logs
one warning for the broker. In that case a failed commit is logged only in the line of its message.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import anyio

from pyjms.enums import CacheLevel
from pyjms.errors import ConnectionFailedException, TransactionRolledBackException
from pyjms.jms.api import Connection, MessageConsumer, Session
from pyjms.listener.error_handling import (
    SharedConnectionNotInitializedError,
    describe,
    is_misconfiguration,
    prevents_startup,
)
from pyjms.listener.outages import Outage, is_connection_failure
from pyjms.listener.properties import DefaultContainerProperties
from pyjms.listener.resources import ContainerResources
from pyjms.runtime import clock as _clock
from pyjms.runtime.backoff import BackOffExecution
from pyjms.runtime.logging import get_logger
from pyjms.template.resources import close_quietly

if TYPE_CHECKING:
    from pyjms.listener.container import LifeCycle, StartOutcome
    from pyjms.listener.invoker import AsyncMessageListenerInvoker

logger: Final = get_logger(__name__)


class Recovery:
    """Reconnects for one container."""

    def __init__(
        self,
        properties: DefaultContainerProperties,
        life_cycle: LifeCycle,
        resources: ContainerResources,
        start_outcome: StartOutcome,
        stop_container: Callable[[], Awaitable[None]],
    ) -> None:
        self._properties = properties
        self._life_cycle = life_cycle
        self._start_outcome = start_outcome
        self._stop_container = stop_container
        self._resources = resources
        self.in_progress: bool = False
        self._lock = anyio.Lock()
        self._generation = 0
        self._was_late = False

    async def join(self, invoker: AsyncMessageListenerInvoker) -> None:
        """Wait for a recovery in progress, and record the current generation."""
        if self._lock.locked():
            async with self._lock:
                pass
        invoker.generation = self._generation

    async def recover(self, invoker: AsyncMessageListenerInvoker, error: Exception) -> bool:
        """Restore the connection after an invoker failed, unless another invoker has restored it.

        Returns when there is a connection, or when the container has stopped: at once if it has
        never had a consumer and a retry cannot succeed. False: the invoker has failed too often in
        a row and must not run again.
        """
        failure = error if prevents_startup(error) else None
        if self._start_outcome.settle(failure):
            in_application = self._properties.outages is not None
            if is_misconfiguration(error) or (in_application and failure is not None):
                await self._give_up(error)
                return True
            self.report_start(error)
        if invoker.has_failed and not await self._wait_after_recurring_failure(invoker):
            return False
        invoker.has_failed = True
        async with self._lock:
            if invoker.generation != self._generation:
                self._properties.invoke_exception_listener(error)
                logger.debug(
                    "Setup of JMS message listener invoker failed - "
                    "already recovered by other invoker: %s",
                    describe(error),
                )
                return True
            self._report(error)
            self.in_progress = True
            try:
                await self._refresh_until_successful()
            finally:
                self.in_progress = False
                self._generation += 1
        return True

    async def _give_up(self, error: Exception) -> None:
        self._properties.invoke_exception_listener(error)
        logger.error(
            "Stopping container for destination '%s': its configuration cannot work. Cause: %s",
            self._properties.destination_description,
            describe(error),
        )
        with anyio.CancelScope(shield=True):  # the stop would cancel this wait itself
            await self._stop_container()

    async def _wait_after_recurring_failure(self, invoker: AsyncMessageListenerInvoker) -> bool:
        """Wait one step of the invoker's own back-off; False when that is exhausted."""
        if invoker.setup_failures is None:
            invoker.setup_failures = self._properties.back_off.start()
        logger.warning(
            "Recurring setup failure in %s - retrying using %s",
            invoker.name,
            str(invoker.setup_failures),  # as text, because the counter changes later
        )
        seconds = invoker.setup_failures.next_back_off()
        if seconds is None:
            return False
        await _clock.sleep(seconds)
        return True

    async def _refresh_until_successful(self) -> None:
        properties = self._properties
        execution = properties.back_off.start()
        self._resources.forget_destination()
        while True:
            try:
                await self._refresh()
            except Exception as error:
                self._report_attempt(error, execution)
            else:
                return
            seconds = execution.next_back_off()
            if seconds is None:
                break
            if not self._life_cycle.running:
                return
            await _clock.sleep(seconds)
        logger.error(
            "Stopping container for destination '%s': "
            "back-off policy does not allow for further attempts.",
            properties.destination_description,
        )
        with anyio.CancelScope(shield=True):  # the stop would cancel this wait itself
            await self._stop_container()

    async def _refresh(self) -> None:
        """Make one attempt: connect, then create a session and a consumer as a test."""
        if not self._life_cycle.running:
            return
        properties = self._properties
        owned: Connection | None = None
        session: Session | None = None
        consumer: MessageConsumer | None = None
        try:
            if properties.cache_level >= CacheLevel.CONNECTION:
                connection = await self._resources.refresh()
            else:
                factory = properties.require_connection_factory()
                connection = owned = await factory.create_connection()
            session = await self._resources.create_session(connection)
            consumer = await self._resources.create_consumer(session)
        finally:
            await close_quietly(consumer, session, owned)
        logger.debug("Successfully refreshed JMS Connection")
        if (outage := self._outage()) is not None:
            outage.record_connection(self._properties.log_name)

    async def establish(self) -> None:
        """Open the connection; an application waits for a broker only until its timeout.

        After the timeout has passed once, other listeners of the broker do not wait at their start.
        """
        seconds = self._properties.startup_timeout
        outage = self._outage()
        if seconds is not None and outage is not None and outage.timed_out:
            seconds = 0.0
        with _clock.timeout(seconds) as waiting:
            await self._resources.establish()
        if waiting.cancelled_caught:
            raise self.not_in_time()

    def not_in_time(self) -> ConnectionFailedException:
        """Return the exception of a start that has waited for a connection until the timeout."""
        self._was_late = True
        if (outage := self._outage()) is not None:
            outage.timed_out = True
        return ConnectionFailedException(
            f"no connection within {self._properties.startup_timeout:g} s",
            hint="lifecycle.startup_timeout sets how long the start waits",
        )

    def consumer_created(self) -> None:
        """Record that the broker has accepted a consumer."""
        self._start_outcome.settle()
        if self._was_late:
            self._was_late = False
            if (outage := self._outage()) is not None:
                outage.record_connection(self._properties.log_name)

    def report_start(self, error: Exception) -> None:
        """Report that a container starts without its broker, if `error` means that."""
        outage = self._outage()
        if outage is not None and is_connection_failure(error):
            outage.record_failure(error)

    def _outage(self) -> Outage | None:
        properties = self._properties
        if properties.outages is None:
            return None
        return properties.outages.of(properties.require_connection_factory())

    def _report(self, error: Exception) -> None:
        self._properties.invoke_exception_listener(error)
        if isinstance(error, SharedConnectionNotInitializedError):
            logger.debug("JMS message listener invoker needs to establish shared Connection")
            return
        outage = self._outage()
        is_shared = outage is not None and is_connection_failure(error)
        if outage is not None and is_shared:
            outage.record_loss(self._properties.log_name, error)
        is_known = is_shared or (outage is not None and self._is_logged_with_its_delivery(error))
        logger.log(
            logging.DEBUG if is_known else logging.WARNING,
            "Setup of JMS message listener invoker failed for destination '%s' - "
            "trying to recover. Cause: %s",
            self._properties.destination_description,
            describe(error),
            exc_info=error if logger.isEnabledFor(logging.DEBUG) else None,
        )

    def _is_logged_with_its_delivery(self, error: Exception) -> bool:
        """Return whether the error is that of a commit, which is logged with its message."""
        is_of_commit = isinstance(error, TransactionRolledBackException)
        return is_of_commit and self._properties.transaction_manager is None

    def _report_attempt(self, error: Exception, execution: BackOffExecution) -> None:
        self._properties.invoke_exception_listener(error)
        outage = self._outage()
        is_shared = outage is not None and is_connection_failure(error)
        if outage is not None and is_shared:
            outage.record_failure(error)
        logger.log(
            logging.DEBUG if is_shared else logging.ERROR,
            "Could not refresh JMS Connection for destination '%s' - retrying using %s. Cause: %s",
            self._properties.destination_description,
            str(execution),  # as text, because the counter changes later
            describe(error),
            exc_info=error if logger.isEnabledFor(logging.DEBUG) else None,
        )
