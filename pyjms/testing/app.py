"""A JmsApplication on a test's broker, with a record of what its handlers did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dependency_injector import containers

from pyjms.app import JmsApplication
from pyjms.client.messages import from_command
from pyjms.container.core import ApplicationContainer
from pyjms.core.template import JmsTemplate
from pyjms.errors import IllegalStateException
from pyjms.jms.message import Message
from pyjms.settings import PyjmsSettings, load_settings
from pyjms.testing.broker import EmbeddedBroker
from pyjms.testing.recorder import Recorder

__all__ = ["JmsTestApp"]


class JmsTestApp:
    """Starts applications against a test's broker. The fixture `jms_app` is one."""

    def __init__(self, broker: EmbeddedBroker, url: str) -> None:
        self.broker = broker
        self.url = url
        self.recorder = Recorder()
        self._application: JmsApplication | None = None

    @property
    def application(self) -> JmsApplication:
        """The application that runs.

        Raises:
            IllegalStateException: `start` has not been called.

        """
        if self._application is None:
            raise IllegalStateException(
                "No application runs", hint="await jms_app.start(handlers) first"
            )
        return self._application

    @property
    def template(self) -> JmsTemplate:
        """The application's template (coroutines)."""
        return self.application.template

    async def start(
        self,
        *targets: object,
        config: Path | str | None = None,
        settings: PyjmsSettings | None = None,
        container: containers.Container | type[ApplicationContainer] | None = None,
    ) -> JmsApplication:
        """Run these modules, handlers or instances; on the test's broker, whatever they say.

        Without `config` and `settings` the defaults hold: no file is looked for.

        Raises:
            IllegalStateException: one runs already.
            ConfigurationException: as JmsApplication.

        """
        if self._application is not None and self._application.is_running:
            raise IllegalStateException(
                "The test's application runs already", hint="hand all its handlers to one start"
            )
        if settings is None:
            settings = load_settings(Path(config)) if config else PyjmsSettings()
        settings = settings.with_broker_url(self.url)
        self._application = JmsApplication(
            *targets, settings=settings, container=container, around=self.recorder.around
        )
        await self._application.start()
        return self._application

    async def stop(self) -> None:
        """Stop the application. Idempotent; the fixture does it."""
        if self._application is not None:
            await self._application.stop()

    async def drained(self, name: str, *, raise_errors: bool = False, timeout: float = 5.0) -> None:
        """Wait until the queue `name` is empty and all its messages are acknowledged.

        Args:
            name: the queue.
            raise_errors: raise the first error of any handler so far.
            timeout: seconds of real time.

        """
        await self.broker.drained(name, timeout)
        errors: list[Any] = self.recorder.errors() if raise_errors else []
        if errors:
            raise errors[0]

    async def dead_letters(self, name: str = "ActiveMQ.DLQ") -> list[Message]:
        """The messages in the dead-letter queue, oldest first; they stay there."""
        return [from_command(command) for command in await self.broker.dead_letters(name)]
