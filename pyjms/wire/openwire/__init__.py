"""OpenWire, versions 1 to 12: commands, marshalling and negotiation, without I/O."""
