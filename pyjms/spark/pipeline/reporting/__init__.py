"""Reports of pipelines: events, and the log, status files and health derived from them."""
