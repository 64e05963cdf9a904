"""The application of compose.yaml: it prints each order."""

from typing import Any

from pyjms import jms_listener


@jms_listener("orders.new", id="orders")
def on_order(order: dict[str, Any]) -> None:
    """Handle an order."""
    print(f"order {order.get('id')}", flush=True)
