"""Run in two processes: they share the queues; each hears the topic."""

import os

from pyjms import jms_listener, send_to

ME = os.environ["ME"]


@jms_listener("shared.orders", id="orders")
def on_order(order: dict) -> None:
    print(f"{ME} order {order['id']}", flush=True)
    if ME == "first":
        os.kill(os.getpid(), 9)  # as if its machine failed


@jms_listener("topic://shared.news", id="news")
def on_news(news: dict) -> None:
    print(f"{ME} news {news['id']}", flush=True)


@jms_listener("Consumer.desk.VirtualTopic.shared", id="desk")
@send_to("shared.seen")
def on_price(price: dict) -> dict:
    return price
