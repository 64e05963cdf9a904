"""OpenWire clients: their commands, their resources, and the broker's responses."""
