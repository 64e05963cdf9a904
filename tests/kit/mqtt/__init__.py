"""A client of raw MQTT packets, and random input for the codec and the connector."""
