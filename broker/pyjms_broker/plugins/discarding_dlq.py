"""discardingDLQBrokerPlugin: discards messages that would be dead-lettered."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Destination
from pyjms.runtime.logging import get_logger
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.message import MessageReference
from pyjms_broker.attribute import attribute, count, flag
from pyjms_broker.plugins.redelivery import DeadLetterFilter

logger = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class DiscardingDLQBrokerPlugin:
    """Messages that would be dead-lettered are discarded.

    Source: ActiveMQ DiscardingDLQBrokerPlugin.

    Raises:
        ConfigurationException: `drop_only` has an invalid regular expression.
    """

    drop_all: bool = flag("Whether the messages of all destinations are discarded.", default=True)
    drop_temporary_topics: bool = flag(
        "Whether messages of temporary topics are discarded.", default=True
    )
    drop_temporary_queues: bool = flag(
        "Whether messages of temporary queues are discarded.", default=True
    )
    drop_only: str | None = attribute(
        None,
        "Regular expressions, separated by spaces: messages of destinations whose whole name "
        "matches one are discarded; null: none.",
    )
    report_interval: int = count(1000, "Number of discarded messages between log lines; 0: none.")

    def __post_init__(self) -> None:
        self.patterns()

    def patterns(self) -> tuple[re.Pattern[str], ...]:
        """Return the regular expressions of `drop_only`."""
        found = []
        for text in (self.drop_only or "").split():
            try:
                found.append(re.compile(text))
            except re.error as error:
                raise ConfigurationException(
                    f"drop_only: {text!r} is not a regular expression: {error}",
                    hint=r"write for example orders\..*",
                ) from error
        return tuple(found)

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter around `broker`."""
        return DiscardingDLQBroker(broker, self)


class DiscardingDLQBroker(DeadLetterFilter):
    """Passes on only dead letters that are not to be discarded."""

    def __init__(self, next_broker: Broker, options: DiscardingDLQBrokerPlugin) -> None:
        super().__init__(next_broker)
        self._options = options
        self._patterns = options.patterns()
        self._discarded = 0

    def is_dead_letter(self, reference: MessageReference) -> bool:
        destination = reference.destination.destination
        option = self._option_for(destination)
        if option is None:
            return True
        logger.debug("%s: message %s discarded: %s", destination, reference.message_id, option)
        self._discarded += 1
        interval = self._options.report_interval
        if interval and self._discarded % interval == 0:
            logger.info(
                "Total of %d messages were discarded, since their destination was the dead letter "
                "queue",
                self._discarded,
            )
        return False

    def _option_for(self, destination: Destination) -> str | None:
        """Return the option by which the messages of a destination are discarded, if any."""
        options = self._options
        if options.drop_all:
            return "drop_all"
        if destination.is_temporary:
            if options.drop_temporary_topics and destination.is_topic:
                return "drop_temporary_topics"
            if options.drop_temporary_queues and destination.is_queue:
                return "drop_temporary_queues"
        name = destination.physical_name
        return "drop_only" if any(each.fullmatch(name) for each in self._patterns) else None
