"""Dead letters, and the order in which they and their original messages are stored."""
