from pydantic import BaseModel

from pyjms import jms_listener


class Order(BaseModel):
    id: int
    amount: float


@jms_listener("orders.new", id="orders")
def on_order(order: Order) -> None:
    print(f"order {order.id}: {order.amount}", flush=True)
