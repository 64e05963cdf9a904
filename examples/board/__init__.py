"""The departures board: pipelines on Spark that count every flight once, whatever dies."""
