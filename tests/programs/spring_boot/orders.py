from typing import Annotated, Any

from dependency_injector.wiring import Provide
from pydantic import BaseModel

from pyjms import JmsTemplate, jms_listener


class Order(BaseModel):
    id: int
    amount: float


@jms_listener("spring.orders", id="orders")
def on_order(order: Order, template: Annotated[JmsTemplate, Provide["jms_template"]]) -> None:
    print(f"order {order!r}", flush=True)
    template.convert_and_send("spring.answers", order)


@jms_listener("spring.any", id="any")
def on_any(payload: Any) -> None:
    print(f"any {payload!r}", flush=True)
