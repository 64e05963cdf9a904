"""Connectors and the web server in broker.yaml."""
