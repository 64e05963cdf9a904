"""JMS destinations and broker journals as Spark sources and sinks, and pipelines over them."""
