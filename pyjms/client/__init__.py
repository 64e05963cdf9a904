"""The JMS client: connections, sessions, producers and consumers over a transport."""
