"""The filter of the plug-in `runtime_configuration`, which reloads the file periodically."""

from __future__ import annotations

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms._wakeup import BackgroundTask, end_tasks, spawn
from pyjms.errors import ConfigurationException
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.filter import BrokerFilter
from pyjms_broker.management import RuntimeUpdates

__all__ = ["RuntimeConfigurationBroker"]

logger = get_logger(__name__)


class RuntimeConfigurationBroker(BrokerFilter):
    """Applies changes of the file every `check_period` seconds; 0: only on request.

    Source: ActiveMQ RuntimeConfigurationBroker.
    """

    def __init__(
        self, next_broker: Broker, configuration: RuntimeUpdates, check_period: float
    ) -> None:
        super().__init__(next_broker)
        self._configuration = configuration
        self._configuration.check_period = self._period = check_period
        self._watch: BackgroundTask | None = None
        self._stopped = False

    async def start(self) -> None:
        await super().start()
        self._stopped = False
        self._start_watch()

    async def stop(self) -> None:
        self._stopped = True
        await end_tasks(self._watch)
        self._watch = None
        await super().stop()

    def check_every(self, period: float) -> None:
        """Check the file every `period` seconds from now on; 0: never."""
        self._configuration.check_period = self._period = period
        self._start_watch()

    def _start_watch(self) -> None:
        if self._period > 0 and not self._stopped and (self._watch is None or self._watch.done):
            self._watch = spawn(self._check_periodically, name="check of the configuration file")

    async def _check_periodically(self) -> None:
        reported = ""
        while self._period > 0:
            await _clock.sleep(self._period)
            try:
                await self._configuration.update()
                reported = ""
            except ConfigurationException as error:
                if str(error) != reported:  # log it once, not at each check
                    logger.error("The changed configuration was not applied: %s", error)
                reported = str(error)
            except Exception:
                logger.exception("Changes of the configuration could not be applied")
