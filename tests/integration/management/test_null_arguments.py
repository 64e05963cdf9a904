"""Every operation with null and with empty arguments: done, or refused with a reason."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from pyjms.errors import JMSException
from pyjms_broker.management.errors import InvalidArgumentException
from pyjms_broker.management.model import View
from pyjms_broker.service import BrokerService
from tests.kit.web.console import furnished

LEFT_OUT = {"stop", "restart", "stopGracefully", "start", "terminateJVM", "addConnector"}
"""They end the broker, or open a port; their arguments are tested by themselves."""


async def outcome(view: View[Any], operation: str, arguments: tuple[object, ...]) -> str:
    try:
        await view.invoke(operation, *arguments)
    except JMSException as error:
        return type(error).__name__
    return "done"


async def test_nothing_but_a_refusal_comes_of_missing_arguments() -> None:
    service = BrokerService("nulls", persistent=False, scheduler_support=True)
    async with service, furnished(service):
        kinds = {view.kind.description: view for view in service.management.find("*:*")}
        tried = 0
        for view in kinds.values():
            for known in view.kind.operations.values():
                for operation in known:
                    if operation.name in LEFT_OUT or not operation.parameters:
                        continue
                    for given in product((None, ""), repeat=len(operation.parameters)):
                        await outcome(view, operation.signature, given)
                        tried += 1
        assert tried > 100


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("addQueue", (None,)),
        ("removeTopic", (None,)),
        ("browseQueue", (None,)),
        ("addConnector", (None,)),
        ("createDurableSubscriber", ("client", "name", None, None)),
        ("stopGracefully", (None, ".*", 1000, 10)),
    ],
)
async def test_a_name_that_is_null_is_refused(
    operation: str, arguments: tuple[object, ...]
) -> None:
    async with BrokerService("nulls", persistent=False) as service:
        (view,) = service.management.find("*:type=Broker,brokerName=nulls")
        with pytest.raises(InvalidArgumentException, match=f"of {operation} is null"):
            await view.invoke(operation, *arguments)
