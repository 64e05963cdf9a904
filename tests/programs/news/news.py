from pyjms import jms_listener


@jms_listener("news", id="archive", durable=True, subscription="archive")
def on_news(news: dict) -> None:
    print(f"archived {news['title']}", flush=True)


@jms_listener("topic://news", id="ticker")
def on_live(news: dict) -> None:
    print(f"ticker {news['title']}", flush=True)
