"""destinationsPlugin: a file with the list of destinations, for the next start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import anyio.to_thread

from pyjms.errors import ConfigurationException, JMSException
from pyjms.jms.destination import Destination, parse_destination
from pyjms.runtime.logging import get_logger
from pyjms.runtime.paths import replace_text
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.names import is_internal
from pyjms_broker.attribute import Unit, attribute
from pyjms_broker.filters.advisories import is_advisory_topic

logger = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class DestinationsPlugin:
    """A file keeps the list of destinations while the broker is stopped.

    Source: ActiveMQ DestinationsPlugin.
    """

    is_read_at_start: ClassVar[bool] = True
    default_file: ClassVar[tuple[str, str]] = ("location", "destinations")

    location: Path | str | None = attribute(
        None, "The file; null: destinations in the broker's directory.", unit=Unit.PATH
    )

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter around `broker`.

        Raises:
            ConfigurationException: no file is set; in broker.yaml there is a default.
        """
        if self.location is None:
            raise ConfigurationException(
                "The plug-in for the list of destinations has no location",
                hint="write DestinationsPlugin(location=...)",
            )
        return DestinationsBroker(broker, Path(self.location))


class DestinationsBroker(BrokerFilter):
    """Writes the names of queues and topics at the stop and reads them at the start."""

    def __init__(self, next_broker: Broker, file: Path) -> None:
        super().__init__(next_broker)
        self._file = file
        self._has_started = False

    async def start(self) -> None:
        """Create the destinations listed in the file; log those that cannot be created."""
        await super().start()
        names = await anyio.to_thread.run_sync(_read, self._file)
        context = ConnectionContext()
        context.is_broker = True
        for number, name in enumerate(names, 1):
            if not name.strip():
                continue
            try:
                self.add_destination(context, parse_destination(name.strip()))
            except JMSException as error:
                logger.error(
                    "%s:%d: %r could not be created: %s", self._file, number, name[:200], error
                )
        self._has_started = True

    async def stop(self) -> None:
        """Write the list; if that fails, log the reason and keep the old list."""
        if self._has_started:  # otherwise the list would be incomplete
            self._has_started = False
            names = [each.qualified_name for each in self.destinations() if _is_kept(each)]
            text = "".join(f"{name}\n" for name in sorted(names))
            try:
                await anyio.to_thread.run_sync(replace_text, self._file, text)
            except OSError as error:
                logger.error(
                    "The list of destinations could not be written to %s: %s", self._file, error
                )
        await super().stop()


def _is_kept(destination: Destination) -> bool:
    return not (
        destination.is_temporary or is_advisory_topic(destination) or is_internal(destination)
    )


def _read(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationException(
            f"The list of destinations {file} cannot be read: {error}",
            hint="make it readable, or remove it: the broker then starts with an empty list",
        ) from error
