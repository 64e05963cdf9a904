"""Maintenance of a bridge to one remote broker, with retries. (activemq-edges U7)"""

from __future__ import annotations

from dataclasses import dataclass, field

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms._wakeup import BackgroundTask, end_tasks, spawn
from pyjms.errors import JMSException
from pyjms_broker.network.attributes import NetworkConnectorAttributes
from pyjms_broker.network.bridge import LoopBackError, NetworkBridge
from pyjms_broker.network.host import NetworkHost
from pyjms_broker.network.remotes import Remote

__all__ = ["BridgeKeeper"]

logger = get_logger(__name__)


@dataclass(eq=False, repr=False)
class BridgeKeeper:
    """Maintains a bridge to one remote broker.

    Args:
        host: the local broker.
        attributes: the attributes of the network connector.
        remote: the remote broker's addresses.
        is_found: whether a discovery agent, which may also find the local broker, has found it.
        is_quiet: whether failures are logged without a warning.
    """

    host: NetworkHost
    attributes: NetworkConnectorAttributes
    remote: Remote
    is_found: bool = field(default=False, kw_only=True)
    is_quiet: bool = field(default=False, kw_only=True)
    is_wanted: bool = field(default=True, init=False)
    """Whether another bridge is started when the bridge has ended."""
    bridge: NetworkBridge | None = field(default=None, init=False)
    """The bridge, while it is forwarding."""
    failure: BaseException | None = field(default=None, init=False)
    """The reason why there is currently no bridge."""
    _task: BackgroundTask | None = field(default=None, init=False)
    _failures: int = field(default=0, init=False)

    @property
    def missing(self) -> tuple[str, str] | None:
        """The remote broker and the reason for having no bridge; None if nothing is missing."""
        failure = self.failure
        if self.bridge is not None or self._task is None or failure is None:
            return None
        return str(self.remote), str(failure)

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done

    @property
    def has_failed(self) -> bool:
        """Whether there is no bridge because the last attempt failed."""
        return self.bridge is None and self._failures > 0

    @property
    def is_needed(self) -> bool:
        """Whether there is, or may still be, a bridge."""
        return self.is_running or self.is_wanted

    def start(self) -> None:
        if not self.is_running:
            self._failures = 0
            name = f"network connector {self.attributes.name} to {self.remote}"
            self._task = spawn(self._run, name=name)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        task, self._task = self._task, None
        await end_tasks(task)

    async def _run(self) -> None:
        retrying = AsyncRetrying(
            retry=retry_if_exception(_is_worth_a_retry),
            wait=self._delay,
            stop=self._gives_up,
            sleep=_clock.sleep,
            before_sleep=self._log,
            reraise=True,
        )
        try:
            await retrying(self._live)
        except JMSException as error:
            name = self.attributes.name
            is_own = self.is_found and isinstance(error, LoopBackError)
            self.failure = None if is_own else error
            if is_own:
                logger.debug("Network connector %s has found its own broker", name)
            elif not self.is_wanted:
                logger.debug("Network connector %s: %s is gone: %s", name, self.remote, error)
            else:
                logger.error("Network connector %s: %s", name, error)

    async def _live(self) -> None:
        """Start a bridge and wait for its end.

        Raises:
            JMSException: always, with the reason for the failure or the end.
        """
        name = self.attributes.name
        bridge = NetworkBridge(self.host, self.attributes, self.remote)
        began = _clock.now()
        try:
            await bridge.start()
            self.bridge, self.failure = bridge, None
            logger.info(
                "Network connector %s: bridge to %s at %s established",
                name,
                bridge.remote_name,
                bridge.remote_address,
            )
            await bridge.wait_ended()
        finally:
            lived = self.bridge is not None
            self.bridge = None
            await bridge.stop()
            is_short = _clock.now() - began < self.remote.reconnection.min_connect_time
            self._failures = 0 if lived and not is_short else self._failures + 1

    def _delay(self, _state: RetryCallState) -> float:
        return self.remote.reconnection.delay_after(self._failures)

    def _gives_up(self, _state: RetryCallState) -> bool:
        most = self.remote.reconnection.max_reconnect_attempts
        return not self.is_wanted or 0 < most <= self._failures

    def _log(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        self.failure = error
        if self._failures <= 1 and not self.is_quiet:
            logger.warning(
                "Network connector %s: no bridge to %s, it is tried again: %s",
                self.attributes.name,
                self.remote,
                error,
            )
        else:
            logger.debug("Network connector %s: %s", self.attributes.name, error)


def _is_worth_a_retry(error: BaseException) -> bool:
    return isinstance(error, JMSException) and not isinstance(error, LoopBackError)
