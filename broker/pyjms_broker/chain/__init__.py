"""The built-in filters of the broker's chain, one behaviour each."""
