"""ActiveMQ's attributes of a broker: each is converted, and has the same default here."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from pyjms_broker.conversion import Conversion, convert_activemq_xml

DEFAULTS: Final = {
    "brokerName": "localhost",
    "persistent": "true",
    "useJmx": "true",
    "advisorySupport": "true",
    "anonymousProducerAdvisorySupport": "false",
    "schedulerSupport": "false",
    "maxSchedulerRepeatAllowed": "1000",
    "dataDirectory": "activemq-data",
    "deleteAllMessagesOnStartup": "false",
    "useVirtualTopics": "true",
    "useMirroredQueues": "false",
    "useTempMirroredQueues": "true",
    "useVirtualDestSubs": "false",
    "useVirtualDestSubsOnCreation": "false",
    "keepDurableSubsActive": "true",
    "enableMessageExpirationOnActiveDurableSubs": "false",
    "offlineDurableSubscriberTimeout": "-1",
    "offlineDurableSubscriberTaskSchedule": "300000",
    "rejectDurableConsumers": "false",
    "populateJMSXUserID": "false",
    "populateUserNameInMBeans": "false",
    "enableStatistics": "true",
    "useShutdownHook": "true",
    "systemExitOnShutdown": "false",
    "splitSystemUsageForProducersConsumers": "false",
    "monitorConnectionSplits": "false",
    "dedicatedTaskRunner": "false",
    "cacheTempDestinations": "false",
    "timeBeforePurgeTempDestinations": "5000",
    "allowTempAutoCreationOnSend": "false",
    "schedulePeriodForDestinationPurge": "0",
    "maxPurgedDestinationsPerSweep": "0",
    "schedulePeriodForDiskUsageCheck": "0",
    "diskUsageCheckRegrowThreshold": "-1",
    "adjustUsageLimits": "true",
    "networkConnectorStartAsync": "false",
    "startAsync": "false",
    "restartAllowed": "true",
    "rollbackOnlyOnAsyncException": "true",
}
OTHER: Final = {"true": "false", "false": "true"}
"""Another value than the default; of numbers and names `7`."""


def convert(folder: Path, attributes: str = "") -> Conversion:
    file = folder / "activemq.xml"
    file.write_text(
        '<beans xmlns="http://www.springframework.org/schema/beans">'
        f'<broker xmlns="http://activemq.apache.org/schema/core" {attributes}/></beans>',
        encoding="utf-8",
    )
    return convert_activemq_xml(file, {}, environ={})


@pytest.mark.fact("activemq-broker B0")
@pytest.mark.parametrize("name", DEFAULTS)
def test_the_default_of_activemq_is_the_default_here(name: str, tmp_path: Path) -> None:
    written = convert(tmp_path, f'{name}="{DEFAULTS[name]}"')
    assert not written.unsupported
    assert written.settings().model_dump() == convert(tmp_path).settings().model_dump()


@pytest.mark.fact("activemq-broker B0")
@pytest.mark.parametrize("name", DEFAULTS)
def test_another_value_changes_the_settings_or_is_told(name: str, tmp_path: Path) -> None:
    other = OTHER.get(DEFAULTS[name], "7")
    written = convert(tmp_path, f'{name}="{other}"')
    is_told = any(f"<broker {name}>" in str(each) for each in written.findings)
    settings = written.settings().model_dump()
    assert is_told or settings != convert(tmp_path).settings().model_dump()
