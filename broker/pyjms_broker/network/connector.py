"""A network connector: keeps a bridge to each remote broker of its URI. (activemq-edges 9, U7)"""

from __future__ import annotations

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms._wakeup import BackgroundTask, end_tasks, spawn
from pyjms.errors import JMSException
from pyjms_broker.network.attributes import NetworkConnectorAttributes
from pyjms_broker.network.bridge import LoopBackError, NetworkBridge
from pyjms_broker.network.host import NetworkHost
from pyjms_broker.network.remotes import Remote, read_remotes

__all__ = ["NetworkConnector"]

logger = get_logger(__name__)


class NetworkConnector:
    """Forwards to other brokers while it is started. Belongs to the broker's event loop.

    Args:
        host: the local broker.
        uri: names the remote brokers, such as `static:(tcp://b:61616)`.
        attributes: how it forwards; by default as ActiveMQ does.

    Raises:
        ConfigurationException: the URI cannot be read, or finds brokers by other means than a list.
        UnsupportedOperationException: the scheme of a broker is not supported.
    """

    def __init__(
        self, host: NetworkHost, uri: str, attributes: NetworkConnectorAttributes | None = None
    ) -> None:
        self.uri = uri
        self.attributes = attributes or NetworkConnectorAttributes()
        self._host = host
        self._keepers = [
            _BridgeKeeper(host, self.attributes, remote) for remote in read_remotes(uri)
        ]

    @property
    def name(self) -> str:
        """The name, unique in the broker."""
        return self.attributes.name

    @property
    def started(self) -> bool:
        """Whether it keeps bridges."""
        return any(keeper.is_running for keeper in self._keepers)

    @property
    def bridges(self) -> list[NetworkBridge]:
        """The bridges that forward at present."""
        return [each for keeper in self._keepers if (each := keeper.bridge) is not None]

    @property
    def missing_bridges(self) -> list[tuple[str, str]]:
        """The remote brokers that could not be reached, each with the reason."""
        return [each for keeper in self._keepers if (each := keeper.missing) is not None]

    def start(self) -> None:
        """Connect to the remote brokers, in the background, again and again. Idempotent."""
        for keeper in self._keepers:
            keeper.start()

    async def stop(self) -> None:
        """End all bridges; what they have not forwarded stays in this broker. Idempotent."""
        for keeper in self._keepers:
            keeper.cancel()
        for keeper in self._keepers:
            await keeper.stop()


class _BridgeKeeper:
    """Keeps a bridge to one remote broker: starts the next one when one has ended."""

    def __init__(
        self, host: NetworkHost, attributes: NetworkConnectorAttributes, remote: Remote
    ) -> None:
        self._host = host
        self._attributes = attributes
        self._remote = remote
        self._task: BackgroundTask | None = None
        self._failures = 0
        self.bridge: NetworkBridge | None = None
        """The bridge, while it forwards."""
        self.failure: BaseException | None = None
        """Why there is none at present."""

    @property
    def missing(self) -> tuple[str, str] | None:
        """The remote broker, and why there is no bridge to it; None: there is, or shall be none."""
        failure = self.failure
        if self.bridge is not None or self._task is None or failure is None:
            return None
        return str(self._remote), str(failure)

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done

    def start(self) -> None:
        if not self.is_running:
            self._failures = 0
            name = f"network connector {self._attributes.name} to {self._remote}"
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
            self.failure = error
            logger.error("Network connector %s: %s", self._attributes.name, error)

    async def _live(self) -> None:
        """Start a bridge and wait for its end.

        Raises:
            JMSException: always; why it could not start, or has ended.
        """
        name = self._attributes.name
        bridge = NetworkBridge(self._host, self._attributes, self._remote)
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
            is_short = _clock.now() - began < self._remote.reconnection.min_connect_time
            self._failures = 0 if lived and not is_short else self._failures + 1

    def _delay(self, _state: RetryCallState) -> float:
        return self._remote.reconnection.delay_after(self._failures)

    def _gives_up(self, _state: RetryCallState) -> bool:
        most = self._remote.reconnection.max_reconnect_attempts
        return 0 < most <= self._failures

    def _log(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        self.failure = error
        if self._failures <= 1:
            logger.warning(
                "Network connector %s: no bridge to %s, it is tried again: %s",
                self._attributes.name,
                self._remote,
                error,
            )
        else:
            logger.debug("Network connector %s: %s", self._attributes.name, error)


def _is_worth_a_retry(error: BaseException) -> bool:
    return isinstance(error, JMSException) and not isinstance(error, LoopBackError)
