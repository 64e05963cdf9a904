"""Running pipelines: the query, its checkpoint and sinks, the supervisor and the runner."""
