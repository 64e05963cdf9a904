"""Jobs of the broker's scheduler."""
