"""The application of these tests, with handlers of every kind."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from pyjms import Header, Headers, TextMessage, jms_listener, send_to
from pyjms.aio import Session


class Line(BaseModel):
    sku: str = Field(description="What is <ordered>.", min_length=3)
    pieces: int = Field(default=1, ge=1)


class Order(BaseModel):
    """An order of a customer."""

    id: int
    lines: list[Line]
    parent: Order | None = None


class Price(BaseModel):
    total: float


@jms_listener("orders.new", id="orders", concurrency="3-10", selector="region = 'EU'")
@send_to("orders.priced")
def on_order(
    order: Order,
    tenant: Annotated[str, Header()],
    everything: Annotated[dict[str, Any], Headers()],
    priority: Annotated[int, Header("jms_priority")] = 4,
) -> Price | None:
    """Price an order.

    Orders of unknown customers become dead letters.
    """


@jms_listener("topic://news", id="news")
@jms_listener("orders.new", id="again", container_factory="reports")
async def on_news(text: str) -> None: ...


@jms_listener("raw")
async def raw(message: TextMessage, session: Session) -> bytes:
    return b""


@jms_listener("batches", id="batches", batch_size=10)
async def batches(orders: list[Order]) -> None: ...
