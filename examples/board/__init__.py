"""The departures board: Spark pipelines that count every flight once, whatever process dies."""
