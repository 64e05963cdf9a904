"""Where the broker listens, in broker.yaml: connectors and the web server."""
