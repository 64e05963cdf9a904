"""Orders arrive from one broker; their results are sent to another one."""

import sys
from typing import Annotated

from dependency_injector.wiring import Provide

from pyjms import JmsApplication, JmsTemplate, jms_listener


@jms_listener("two.orders", id="orders")
def on_order(order: dict, audit: Annotated[JmsTemplate, Provide["jms_templates.audit"]]) -> None:
    audit.convert_and_send("two.events", {"seen": order["id"]})


@jms_listener("two.events", id="events", container_factory="audit")
def on_event(event: dict) -> None:
    print(f"audited {event['seen']}", flush=True)


app = JmsApplication(sys.modules[__name__])
