"""OpenWire, versions 1 to 12."""
