from pydantic import BaseModel

from pyjms import jms_listener


class NewOrder(BaseModel):
    id: int
    amount: float


@jms_listener("orders.two", id="orders")
def on_order(order: NewOrder) -> None:
    print(repr(order), flush=True)
