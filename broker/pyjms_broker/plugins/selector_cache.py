"""virtualSelectorCacheBrokerPlugin: remembers selectors for queues of virtual topics.

A selector-aware virtual topic copies a message to a queue if a consumer's selector matches. While
the queue has no consumers, their last selectors are used. (activemq-broker 1.1, V3)
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import anyio.to_thread

from pyjms.errors import ConfigurationException, JMSException
from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms.runtime.paths import replace_text
from pyjms.selector import compile_selector
from pyjms.wire.openwire.commands import ConsumerInfo
from pyjms_broker.api.broker import Broker, PluginFilter
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.message import MessageReference
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.attribute import Unit, attribute, duration, flag

logger = get_logger(__name__)

MOST_SELECTORS: Final = 100
"""The maximum number of remembered selectors of a queue. ActiveMQ has no limit."""
_ALL: Final = "TRUE"
"""The representation of a consumer without a selector, as in ActiveMQ."""
_WILDCARD: Final = re.compile(r"\blike\s+'(?:[^']|'')*[%_]", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class VirtualSelectorCacheBrokerPlugin:
    """Queues of selector-aware virtual topics get what their former consumers selected.

    Source: ActiveMQ SubQueueSelectorCacheBrokerPlugin.
    """

    is_read_at_start: ClassVar[bool] = True

    persist_file: Path | str | None = attribute(
        None, "File that keeps the selectors across restarts; null: no file.", unit=Unit.PATH
    )
    persist_interval: float = duration(
        600.0, "Time between writes of changed selectors to the file; also written at the stop."
    )
    single_selector_per_destination: bool = flag(
        "Whether only the last selector of a queue is remembered, which may be none."
    )
    ignore_wildcard_selectors: bool = flag(
        "Whether selectors with LIKE and a wildcard are not remembered."
    )

    def __post_init__(self) -> None:
        if self.persist_interval <= 0:
            raise ConfigurationException(
                "persist_interval is not more than 0", hint="write for example 10m"
            )

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter around `broker`."""
        return VirtualSelectorCacheBroker(broker, self)


class VirtualSelectorCacheBroker(PluginFilter[VirtualSelectorCacheBrokerPlugin]):
    """Remembers the selectors of each queue's consumers after they have disconnected."""

    def __init__(self, next_broker: Broker, plugin: VirtualSelectorCacheBrokerPlugin) -> None:
        super().__init__(next_broker, plugin)
        self._selectors: dict[str, dict[str, None]] = {}
        self._is_changed = False
        self._writer: BackgroundTask | None = None

    async def start(self) -> None:
        """Read the file, if there is one."""
        file = self.plugin.persist_file
        if file is not None:
            self._selectors = await anyio.to_thread.run_sync(_read, Path(file))
        await super().start()
        if file is not None:
            self._writer = spawn(self._write_periodically, name="selectors of virtual topics")

    async def stop(self) -> None:
        if self._writer is not None:
            await end_tasks(self._writer)
            self._writer = None
            await self._write()
        await super().stop()

    def add_consumer(self, context: ConnectionContext, info: ConsumerInfo) -> Subscription:
        subscription = super().add_consumer(context, info)
        if info.destination is not None and not info.browser:
            for queue in info.destination.composite_destinations:
                if queue.is_queue and not queue.is_temporary:
                    self._remember(queue, info.selector or _ALL)
        return subscription

    def remove_destination(
        self, context: ConnectionContext, destination: Destination, timeout: float
    ) -> None:
        super().remove_destination(context, destination, timeout)
        if self._selectors.pop(destination.qualified_name, None) is not None:
            self._is_changed = True

    def is_awaited(self, reference: MessageReference) -> bool:
        """Return whether a remembered selector of the message's queue matches the message."""
        name = reference.destination.destination.qualified_name
        remembered = self._selectors.get(name, {})
        for selector in tuple(remembered):
            if selector == _ALL:
                return True
            try:
                if compile_selector(selector).matches(reference.lookup):
                    return True
            except JMSException as error:  # it is too costly, or an invalid one from the file
                logger.error("A selector of %s is no longer remembered: %s", name, error)
                del remembered[selector]
        return self.next.is_awaited(reference)

    def _remember(self, queue: Destination, selector: str) -> None:
        options = self.plugin
        if options.ignore_wildcard_selectors and _WILDCARD.search(selector):
            return
        remembered = self._selectors.setdefault(queue.qualified_name, {})
        if selector in remembered:
            return
        if options.single_selector_per_destination and selector != _ALL:
            for other in [each for each in remembered if each != _ALL]:
                del remembered[other]
        elif len(remembered) >= MOST_SELECTORS:
            del remembered[next(iter(remembered))]
        remembered[selector] = None
        self._is_changed = True

    async def _write_periodically(self) -> None:
        while True:
            await _clock.sleep(self.plugin.persist_interval)
            await self._write()

    async def _write(self) -> None:
        file = self.plugin.persist_file
        if not self._is_changed or file is None:
            return
        self._is_changed = False
        selectors = {name: list(each) for name, each in self._selectors.items()}
        text = json.dumps(selectors, indent=1, ensure_ascii=False)
        try:
            await anyio.to_thread.run_sync(replace_text, Path(file), text)
        except OSError as error:
            self._is_changed = True
            logger.error("The selectors of queues could not be written to %s: %s", file, error)


def _read(file: Path) -> dict[str, dict[str, None]]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _unreadable(file, str(error)) from error
    if not isinstance(found, dict) or not all(
        isinstance(each, list) and all(isinstance(selector, str) for selector in each)
        for each in found.values()
    ):
        raise _unreadable(file, "it has no lists of selectors by queue")
    return {name: dict.fromkeys(selectors[-MOST_SELECTORS:]) for name, selectors in found.items()}


def _unreadable(file: Path, reason: str) -> ConfigurationException:
    return ConfigurationException(
        f"The file of selectors {file} cannot be read: {reason}",
        hint="remove it, or name another persist_file; ActiveMQ's file contains Java objects",
    )
