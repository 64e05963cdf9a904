"""The connector of MQTT 3.1 and 3.1.1."""
