"""Limits of memory and disk space as percentages."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from pyjms.errors import ConfigurationException
from pyjms.runtime.machine import available_memory
from pyjms_broker.service import BrokerService
from pyjms_broker.service.usage_limits import disk_size
from pyjms_broker.settings import load_broker_settings

GB = 1 << 30
KEYS = ("memory", "store", "temp", "job_scheduler")


def limits(service: BrokerService) -> list[int]:
    usage = service.system_usage
    return [usage.memory.limit, usage.store.limit, usage.temp.limit, usage.job_scheduler.limit]


@pytest.mark.fact("activemq-broker M0")
def test_the_defaults_are_activemqs_of_an_embedded_broker() -> None:
    assert limits(BrokerService()) == [GB, 100 * GB, 50 * GB, 50 * GB]


@pytest.mark.fact("activemq-broker M0")
@pytest.mark.parametrize(
    ("text", "size"), [("1000", 1000), ("3kb", 3 << 10), ("3 mb", 3 << 20), ("3gb", 3 << 30)]
)
def test_limits_have_units(tmp_path: Path, text: str, size: int) -> None:
    service = configured(tmp_path, *(f"  {key}_limit: {text}" for key in KEYS))
    assert limits(service) == [size] * 4


@pytest.mark.fact("activemq-broker M0")
@pytest.mark.parametrize(("text", "share"), [("70%", 0.7), ("12.5 %", 0.125), ("100%", 1.0)])
def test_limits_may_be_percentages_of_memory_and_disk(
    tmp_path: Path, text: str, share: float
) -> None:
    service = configured(tmp_path, *(f'  {key}_limit: "{text}"' for key in KEYS))
    disk = shutil.disk_usage(tmp_path).total
    wholes = [available_memory(), disk, disk, disk]
    assert limits(service) == [int(whole * share) for whole in wholes]


def configured(tmp_path: Path, *lines: str) -> BrokerService:
    file = tmp_path / "broker.yaml"
    directory = f"data_directory: {tmp_path / 'not' / 'there' / 'yet'}"
    file.write_text("\n".join([directory, "system_usage:", *lines]), encoding="utf-8")
    return BrokerService.from_settings(load_broker_settings(file, environ={}))


@pytest.mark.fact("activemq-broker M0")
def test_percentages_in_code_and_in_uris() -> None:
    uri = "broker:()/x?systemUsage.memoryUsage.limit=50%25&systemUsage.storeUsage.limit=4096"
    for service in (
        BrokerService(memory_limit="50%", store_limit=4096),
        BrokerService.from_uri(uri),
    ):
        assert limits(service)[:2] == [available_memory() // 2, 4096]


@pytest.mark.parametrize("text", ["0%", "101%", "-5%", "%", "70%x", "much"])
def test_other_limits_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationException, match=r"memory_limit: .* is neither"):
        BrokerService(memory_limit=text)
    with pytest.raises(ConfigurationException, match=r"broker.yaml:3: system_usage.memory_limit"):
        configured(tmp_path, f'  memory_limit: "{text}"')


def test_the_memory_is_that_of_the_machine_or_less() -> None:
    pages = [line for line in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line]
    assert 0 < available_memory() <= int(pages[0].split()[1]) * 1024
    assert disk_size(Path("/no/such/directory")) == shutil.disk_usage("/").total


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk with 10 GiB of free space."""
    real = shutil.disk_usage

    def usage(path: Path) -> Any:
        return real(path)._replace(free=10 * GB)

    monkeypatch.setattr(shutil, "disk_usage", usage)


@pytest.mark.fact("activemq-broker B11")
@pytest.mark.parametrize("key", ["memory_limit", "store_limit", "temp_limit"])
@pytest.mark.usefixtures("small_disk")
async def test_a_limit_above_the_available_space(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, key: str
) -> None:
    file = tmp_path / "broker.yaml"
    text = f"data_directory: {tmp_path / 'data'}\nsystem_usage:\n  {key}: 100000gb\n"
    file.write_text(text, encoding="utf-8")
    service = BrokerService.from_settings(load_broker_settings(file, environ={}))
    async with service:
        usage = service.system_usage
        found = {
            "memory_limit": usage.memory.limit,
            "store_limit": usage.store.limit,
            "temp_limit": usage.temp.limit,
        }
        lowered = found[key]
        if key == "memory_limit":
            assert lowered == int(available_memory() * 0.7)
        else:
            assert 10 * GB <= lowered < 11 * GB  # and what the store has
    warnings = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert [f"{key} is 107,374,182,400,000 bytes, and the" in each for each in warnings] == [True]
    file.write_text(f"adjust_usage_limits: false\n{text}", encoding="utf-8")
    refused = BrokerService.from_settings(load_broker_settings(file, environ={}))
    with pytest.raises(ConfigurationException, match=f"{key} is 107,374,182,400,000 bytes"):
        await refused.start()


@pytest.mark.fact("activemq-broker B11")
@pytest.mark.usefixtures("small_disk")
async def test_defaults_are_lowered_without_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with BrokerService(data_directory=tmp_path) as service:
        assert max(limits(service)[1:3]) < 11 * GB
    assert [each for each in caplog.records if each.levelname == "WARNING"] == []
