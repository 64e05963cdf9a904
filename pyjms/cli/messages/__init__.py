"""`pyjms send`, `receive` and `browse`: messages of any broker that supports OpenWire."""
