"""Parameters of handlers that are fields of the payload, over the real broker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Annotated, Any

import pytest
from dependency_injector import providers
from dependency_injector.wiring import Provide
from pydantic import BaseModel, Field

from pyjms import (
    ApplicationContainer,
    Destination,
    Header,
    JmsApplication,
    Message,
    Payload,
    PyjmsSettings,
    idempotent,
    jms_listener,
)
from pyjms.aio import Session
from pyjms.asyncapi import asyncapi_document
from pyjms.errors import ConfigurationException, UnreadableMessageException
from pyjms.listener import PayloadField
from pyjms.testing.app import JmsTestApp


class Address(BaseModel):
    town: str


class Container(ApplicationContainer):
    prices = providers.Object({"bread": 3})


async def failures(app: JmsTestApp, handler: Any, payload: object) -> list[Exception]:
    """Start a handler of `in`, send a payload, and return what its listener reports."""
    found: list[Exception] = []
    application = await app.start(handler, container=Container)
    application.registry["in"].error_handler = found.append
    await app.template.convert_and_send("in", payload, properties={"region": "EU"})
    await app.drained("in")
    return found


@pytest.mark.fact("spring-jms 6.1.9")
async def test_parameters_are_fields_of_the_payload(jms_app: JmsTestApp) -> None:
    got: list[object] = []

    @jms_listener("in", id="in", fields=True)
    async def handler(
        message: Message,
        number: int,
        due: date,
        address: Address,
        session: Session,
        region: Annotated[str, Header("region")],
        prices: Annotated[dict[str, int], Provide["prices"]],
        express: bool = False,
        *,
        note: Annotated[str, Field(max_length=5)] = "none",
    ) -> None:
        got.extend([number, due, address, region, prices["bread"], express, note])

    payload = {"number": 7, "due": "2026-11-30", "address": {"town": "Bern"}, "unknown": 1}
    assert await failures(jms_app, handler, payload) == []
    assert got == [7, date(2026, 11, 30), Address(town="Bern"), "EU", 3, False, "none"]


@pytest.mark.fact("spring-jms 6.1.9")
async def test_a_marker_makes_one_parameter_a_field(jms_app: JmsTestApp) -> None:
    got: list[object] = []

    @jms_listener("in", id="in")
    def handler(
        order: dict[str, Any], number: Annotated[int, PayloadField("order-id"), Field(gt=0)]
    ) -> None:
        got.append((order, number))

    assert await failures(jms_app, handler, {"order-id": 7, "to": "x"}) == []
    assert got == [({"order-id": 7, "to": "x"}, 7)]


@pytest.mark.fact("spring-jms 6.1.9")
async def test_all_problems_of_the_fields_are_in_one_text(jms_app: JmsTestApp) -> None:
    @jms_listener("in", id="in", fields=True)
    def handler(number: int, name: Annotated[str, PayloadField("full name")]) -> None: ...

    (failure,) = await failures(jms_app, handler, {"number": "seven"})
    assert isinstance(failure, UnreadableMessageException)
    text = str(failure)
    assert "number: Input should be a valid integer" in text
    assert "full name: Field required" in text
    assert "test_all_problems_of_the_fields_are_in_one_text.<locals>.handler" in text
    assert len(await jms_app.dead_letters()) == 1


async def test_fields_of_a_map_message(jms_app: JmsTestApp) -> None:
    got: list[int] = []

    @jms_listener("in", id="in", fields=True)
    def handler(number: int) -> None:
        got.append(number)

    await jms_app.start(handler)

    def create(session: Any) -> Message:
        message = session.create_map_message()
        message["number"] = 7
        return message  # type: ignore[no-any-return]

    await jms_app.template.send("in", create)
    await jms_app.drained("in", raise_errors=True)
    assert got == [7]


async def test_fields_are_part_of_keys_and_of_the_document(jms_app: JmsTestApp) -> None:
    got: list[int] = []

    @jms_listener("in", id="in", fields=True)
    @idempotent(key="{payload.number}")
    async def handler(number: int, text: str = "") -> None:
        got.append(number)

    application = await jms_app.start(handler)
    for _ in range(2):
        await jms_app.template.convert_and_send("in", {"number": 7})
    await jms_app.drained("in")
    assert got == [7]
    document = asyncapi_document(application, title="Orders")
    assert "number" in str(document["components"]["schemas"])


async def both(order: dict[str, int], number: int) -> None: ...
async def nothing(message: Message) -> None: ...
async def numbers(numbers: list[int]) -> None: ...
async def unknown(what: Destination, session: Session) -> None: ...
async def whole(order: Annotated[dict[str, int], Payload()]) -> None: ...


@pytest.mark.parametrize(
    ("handler", "options", "text"),
    [
        (both, {}, "if both are fields of a JSON object, set fields=True"),
        (unknown, {"fields": True}, "parameter 'what' of type"),
        (nothing, {"fields": True}, "fields=True has no effect: no parameter is a field"),
        (whole, {"fields": True}, "fields=True has no effect: no parameter is a field"),
        (numbers, {"fields": True, "batch_size": 3}, "a batch handler gets whole payloads"),
    ],
)
def test_handlers_without_fields_are_refused(
    handler: Callable[..., object], options: Any, text: str
) -> None:
    marked = jms_listener("in", **options)(handler)
    with pytest.raises(ConfigurationException) as raised:
        JmsApplication(marked, settings=PyjmsSettings()).check()
    assert text in str(raised.value)
