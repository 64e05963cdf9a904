"""The JMS client: connections, sessions, producers and consumers over an OpenWire transport."""
