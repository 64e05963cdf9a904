"""What happens when the connection is lost: one consumer reconnects, the others wait for it.

Waits and the number of attempts are the back-off's; tenacity runs the attempts. The log
lines are Spring's. (spring-jms 1.11)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio
from tenacity import AsyncRetrying, RetryCallState

from pyjms import _clock
from pyjms.enums import CacheLevel
from pyjms.errors import JMSException
from pyjms.jms.api import Connection, MessageConsumer, Session
from pyjms.listener.backoff import BackOffExecution, stop_after_back_off, wait_back_off
from pyjms.listener.container.failures import describe, ends_start, is_misconfiguration
from pyjms.listener.container.resources import SharedConnectionNotInitializedError, close_quietly

if TYPE_CHECKING:
    from pyjms.listener.container.default import DefaultMessageListenerContainer
    from pyjms.listener.container.invoker import AsyncMessageListenerInvoker

__all__ = ["Recovery"]

logger = logging.getLogger(__name__)


class Recovery:
    """Reconnects for one container."""

    def __init__(self, container: DefaultMessageListenerContainer) -> None:
        self._container = container
        self._lock = anyio.Lock()
        self._marker = 0
        self.recovering = False

    async def join(self, invoker: AsyncMessageListenerInvoker) -> None:
        """Wait for a recovery that runs, and note that `invoker` has seen all up to now."""
        if self._lock.locked():
            async with self._lock:
                pass
        invoker.recovery_marker = self._marker

    async def recover(self, invoker: AsyncMessageListenerInvoker, error: Exception) -> None:
        """Bring the connection back after `invoker` failed with `error`, unless another one did.

        Returns when there is a connection, or when the container stopped: at once if it has
        never had a consumer, and trying again is of no use.
        """
        failure = error if ends_start(error) else None
        if self._container._settle(failure) and is_misconfiguration(error):
            await self._give_up(error)
            return
        if invoker.failed and not await self._wait_after_recurring_failure(invoker):
            return
        invoker.failed = True
        async with self._lock:
            if invoker.recovery_marker != self._marker:
                self._tell(error)
                logger.debug(
                    "Setup of JMS message listener invoker failed - "
                    "already recovered by other invoker: %s",
                    describe(error),
                )
                return
            self._report(error)
            self.recovering = True
            try:
                await self._refresh_until_successful()
            finally:
                self.recovering = False
                self._marker += 1

    async def _give_up(self, error: Exception) -> None:
        self._tell(error)
        logger.error(
            "Stopping container for destination '%s': it cannot work as it is set up. Cause: %s",
            self._container.destination_description,
            describe(error),
        )
        with anyio.CancelScope(shield=True):  # the stop cuts this very wait short
            await self._container.stop()

    async def _wait_after_recurring_failure(self, invoker: AsyncMessageListenerInvoker) -> bool:
        """Wait one step of the invoker's own back-off; at its end the invoker is removed."""
        container = self._container
        if invoker.setup_failures is None:
            invoker.setup_failures = container.back_off.start()
        logger.warning(
            "Recurring setup failure in %s - retrying using %s",
            invoker.name,
            str(invoker.setup_failures),  # now: it counts on
        )
        seconds = invoker.setup_failures.next_back_off()
        if seconds is None:
            container._pool.remove(invoker)
            return False
        await _clock.sleep(seconds)
        return True

    async def _refresh_until_successful(self) -> None:
        container = self._container
        execution = container.back_off.start()
        wait = wait_back_off(execution)
        exhausted = stop_after_back_off(wait)
        retrying = AsyncRetrying(
            sleep=_clock.sleep,
            wait=wait,
            stop=lambda state: exhausted(state) or not container.is_running,
            after=lambda state: self._report_attempt(state, execution),
            retry_error_callback=lambda _state: None,
        )
        container._forget_destination()
        await retrying(self._refresh)
        if wait.exhausted:
            logger.error(
                "Stopping container for destination '%s': "
                "back-off policy does not allow for further attempts.",
                container.destination_description,
            )
            with anyio.CancelScope(shield=True):  # the stop cuts this very wait short
                await container.stop()

    async def _refresh(self) -> None:
        """One attempt: a connection, and the proof that it has a session and the destination."""
        container = self._container
        if not container.is_running:
            return
        owned: Connection | None = None
        session: Session | None = None
        consumer: MessageConsumer | None = None
        try:
            if container._cache_level >= CacheLevel.CONNECTION:
                connection = await container._shared_connection.refresh()
            else:
                factory = container._require_connection_factory()
                connection = owned = await factory.create_connection()
            session = await container._create_session(connection)
            consumer = await container._create_consumer(session)
        finally:
            await close_quietly(consumer, session, owned)
        logger.debug("Successfully refreshed JMS Connection")

    def _report(self, error: Exception) -> None:
        self._tell(error)
        if isinstance(error, SharedConnectionNotInitializedError):
            logger.debug("JMS message listener invoker needs to establish shared Connection")
            return
        logger.warning(
            "Setup of JMS message listener invoker failed for destination '%s' - "
            "trying to recover. Cause: %s",
            self._container.destination_description,
            describe(error),
            exc_info=error if logger.isEnabledFor(logging.DEBUG) else None,
        )

    def _report_attempt(self, state: RetryCallState, execution: BackOffExecution) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        if error is None:
            return
        self._tell(error)
        logger.error(
            "Could not refresh JMS Connection for destination '%s' - retrying using %s. Cause: %s",
            self._container.destination_description,
            str(execution),  # now: it counts on
            describe(error),
            exc_info=error if logger.isEnabledFor(logging.DEBUG) else None,
        )

    def _tell(self, error: BaseException) -> None:
        if isinstance(error, JMSException):
            self._container._tell_exception_listener(error)
