"""`pyjms broker start`: make the broker, say where it listens, wait for a signal, stop."""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path

import anyio

from broker.service import BrokerService
from pyjms._wakeup import loop_options, spawn
from pyjms.errors import ConfigurationException, JMSException

__all__ = ["run", "serve"]

DEFAULT_OPENWIRE = "127.0.0.1:61616"

CLEAN, FAILED, REFUSED = 0, 1, 2


def run(
    *,
    config: Path | None,
    data: Path | None,
    ephemeral: bool,
    openwire: str | None,
    stomp: str | None,
    name: str | None,
) -> int:
    """Run a broker to its end and return the exit code: 0 stopped, 1 failed, 2 refused."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        refuse_what_is_not_built(data, stomp)
        service = make_service(config, ephemeral, openwire, name)
    except ConfigurationException as error:
        return _complain(error, REFUSED)
    try:
        anyio.run(serve, service, backend_options=loop_options())
    except ConfigurationException as error:
        return _complain(error, REFUSED)
    except JMSException as error:
        return _complain(error, FAILED)
    return CLEAN


def refuse_what_is_not_built(data: Path | None, stomp: str | None) -> None:
    """Say no to options of later versions.

    Raises:
        ConfigurationException: one of them is given.

    """
    if data is not None:
        raise ConfigurationException(
            "--data: this version keeps messages in memory only", hint="start with --ephemeral"
        )
    if stomp is not None:
        raise ConfigurationException(
            "--stomp: this version speaks OpenWire only", hint="leave --stomp out"
        )


def make_service(
    config: Path | None, ephemeral: bool, openwire: str | None, name: str | None
) -> BrokerService:
    """Make the broker that the options and the configuration file describe.

    Raises:
        ConfigurationException: the file or an option is wrong, or messages were to be kept.

    """
    if config is None:
        service = BrokerService()
    else:
        from broker.settings import load_broker_settings

        service = BrokerService.from_settings(load_broker_settings(config))
    if name is not None:
        service.broker_name = name
    if ephemeral:
        service.persistent = False
    if service.persistent:
        raise ConfigurationException(
            "This version keeps messages in memory only, and nothing said that this is fine",
            hint="start with --ephemeral, or with persistent: false in broker.yaml",
        )
    if openwire is not None or not service.connectors:
        service.connectors.clear()
        service.add_connector(f"tcp://{openwire or DEFAULT_OPENWIRE}", name="openwire")
    return service


async def serve(service: BrokerService) -> None:
    """Run `service` until SIGTERM or SIGINT, or until it is stopped from inside."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with service:
            for connector in service.connectors:
                print(
                    f"{connector.name} accepts connections at {connector.connect_uri}", flush=True
                )

            async def stop_on_signal() -> None:
                async for received in signals:
                    logging.getLogger(__name__).info(
                        "Stopping on %s", signal.Signals(received).name
                    )
                    await service.stop()
                    return

            waiter = spawn(stop_on_signal, name="broker stop on signal")
            try:
                await service.wait_until_stopped()
            finally:
                waiter.cancel()
                await waiter.wait()


def _complain(error: JMSException, code: int) -> int:
    print(f"pyjms broker start: {error}", file=sys.stderr)
    return code
