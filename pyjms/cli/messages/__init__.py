"""`pyjms send`, `receive` and `browse`: messages of any broker that speaks OpenWire."""
