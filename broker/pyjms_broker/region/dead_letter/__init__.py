"""Dead letters, and their order in the store relative to the original messages."""
