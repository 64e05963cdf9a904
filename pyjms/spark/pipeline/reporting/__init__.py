"""What pipelines report: events, and the log, status files and health made from them."""
