"""Functions that the broker calls when it starts and stops."""

from __future__ import annotations

import logging
from pathlib import Path

import anyio
import pytest

from pyjms.jms.destination import Queue
from pyjms.testing.clock import VirtualClock
from pyjms_broker.service import BrokerService
from pyjms_broker.settings.persistence import KahaDBPersistenceSettings


@pytest.mark.fact("activemq-broker B9")
async def test_hooks_run_before_the_connectors_close_and_after_the_lock_is_free(
    tmp_path: Path,
) -> None:
    seen: list[tuple[str, bool]] = []
    store = KahaDBPersistenceSettings.model_validate({"fail_if_locked": True})

    async def accepts() -> bool:
        try:
            stream = await anyio.connect_tcp("127.0.0.1", port)
        except OSError:
            return False
        await stream.aclose()
        return True

    def started() -> None:
        seen.append(("started", Queue("ready") in service.broker.destinations()))

    async def stopping() -> None:
        seen.append(("stopping", await accepts()))

    async def stopped() -> None:
        seen.append(("stopped", await accepts()))
        successor = BrokerService("b", persistence=store, data_directory=tmp_path)
        async with successor:  # the store's lock is free
            seen.append(("successor", successor.started))

    service = BrokerService(
        "b",
        persistence=store,
        data_directory=tmp_path,
        destinations=[Queue("ready")],
        startup_hooks=[started, lambda: seen.append(("second", True))],
        pre_shutdown_hooks=[stopping],
        shutdown_hooks=[stopped],
    )
    connector = service.add_connector("tcp://127.0.0.1:0")
    await service.start()
    port = int(connector.connect_uri.rpartition(":")[2])
    await service.start()
    assert seen == [("started", True), ("second", True)]
    await service.stop()
    await service.stop()
    assert seen[2:] == [("stopping", True), ("stopped", False), ("successor", True)]


async def test_a_broker_whose_startup_hook_fails_does_not_start() -> None:
    def fail() -> None:
        raise RuntimeError("no licence")

    calls: list[str] = []
    service = BrokerService(
        "b",
        persistent=False,
        startup_hooks=[fail, lambda: calls.append("second")],
        shutdown_hooks=[lambda: calls.append("stopped")],
    )
    with pytest.raises(RuntimeError, match="no licence"):
        await service.start()
    assert not service.started
    assert calls == ["stopped"]


@pytest.mark.fact("activemq-broker B9")
async def test_a_shutdown_hook_that_fails_or_hangs_does_not_keep_the_broker_running(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[str] = []

    def fail() -> None:
        raise RuntimeError("broken")

    service = BrokerService(
        "b",
        persistent=False,
        pre_shutdown_hooks=[fail, anyio.sleep_forever, lambda: calls.append("pre")],
        shutdown_hooks=[fail, anyio.sleep_forever, lambda: calls.append("post")],
    )
    async with VirtualClock(autojump=True):
        await service.start()
        with caplog.at_level(logging.WARNING):
            await service.stop(timeout=3)
    assert calls == ["pre", "post"]
    assert not service.started
    assert caplog.text.count("RuntimeError: broken") == 2
    assert caplog.text.count("did not end within 3 s") == 2
